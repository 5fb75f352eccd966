"""Values remembered for a short time, so that a request costs no query. Knows nothing about what they are."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TimedCache(Generic[T]):
    """Thread-safe; holds at most `max_len` values, each for `ttl_s` seconds; drops the oldest first."""

    def __init__(
        self, ttl_s: float, max_len: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl_s, self._max_len, self._clock = ttl_s, max_len, clock
        self._lock = threading.Lock()
        self._values: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._generation = 0

    def get(self, key: str, load: Callable[[], T]) -> T:
        """The value kept under `key`, or what `load` returns. `load` runs without the lock held."""
        with self._lock:
            kept = self._values.get(key)
            if kept is not None and self._clock() < kept[0]:
                return kept[1]
            generation = self._generation
        value = load()
        with self._lock:
            # A value read before a clear must not outlive it.
            if generation == self._generation:
                self._values.pop(key, None)
                self._values[key] = (self._clock() + self._ttl_s, value)
                while len(self._values) > self._max_len:
                    self._values.popitem(last=False)
        return value

    def peek(self, key: str, *, though_old: bool = False) -> T | None:
        """The value kept under `key`, if there is one: never waits for a load."""
        with self._lock:
            kept = self._values.get(key)
            if kept is None or (self._clock() >= kept[0] and not though_old):
                return None
            return kept[1]

    def clear(self) -> None:
        with self._lock:
            self._generation += 1
            self._values.clear()
