"""How often somebody may try to log in. Knows nothing about passwords, forms or requests.

Owns the counts of failed tries: by the name that was tried from one address, and by the address. They
are in memory, as there is one process a host, and bounded.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

WINDOW_S = 300.0
MAX_FAILURES_BY_NAME = 10  # of one name from one address
MAX_FAILURES_BY_ADDRESS = 100  # a proxy is one address for all who come through it
MAX_ENTRIES = 4096


class LoginThrottle:
    """Thread-safe. A try is refused while its name or its address failed too often within WINDOW_S."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._failures: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def wait_s(self, name: str, address: str) -> float:
        """Seconds until the next try may be made; 0 for now."""
        with self._lock:
            return max(
                self._wait_s((address, name), MAX_FAILURES_BY_NAME),
                self._wait_s((address, ""), MAX_FAILURES_BY_ADDRESS),
            )

    def failed(self, name: str, address: str) -> None:
        now = self._clock()
        with self._lock:
            for key, most in (
                ((address, name), MAX_FAILURES_BY_NAME),
                ((address, ""), MAX_FAILURES_BY_ADDRESS),
            ):
                self._failures.setdefault(key, deque(maxlen=most)).append(now)
                self._failures.move_to_end(key)
            while len(self._failures) > MAX_ENTRIES:
                self._failures.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """The name's own count begins anew; the address's stays, or one account would open it."""
        with self._lock:
            self._failures.pop((address, name), None)

    def clear(self) -> None:
        with self._lock:
            self._failures.clear()

    def _wait_s(self, key: tuple[str, str], most: int) -> float:
        times = self._failures.get(key)
        if times is None or len(times) < most:
            return 0.0
        return max(0.0, times[0] + WINDOW_S - self._clock())
