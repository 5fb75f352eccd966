"""Threads for one piece of work each, which the end of the server waits for, if not for long.

Owns who is still at work. Knows nothing about the work.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Errands:
    """Thread-safe. Daemons: the interpreter's own end waits for none of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, name=name, daemon=True)
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
            thread.start()

    def join(self, deadline_s: float) -> None:
        """Wait for all of them, until `deadline_s` on the monotonic clock."""
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
