"""How short the host is of memory, as levels. Owns the thresholds and one reading at a time.

Knows no request; what a level means for one is the scheduler's.
"""

from __future__ import annotations

import logging
import threading
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

INTERVAL_S = 0.5


class Pressure(IntEnum):
    LOW = 0
    ELEVATED = 1
    HIGH = 2
    CRITICAL = 3  # nobody new is let in


# Models, pages and buffers are allocated at load. What grows with requests are prompts, texts and
# sockets, some MiB for full slots and a full queue; below CRITICAL's bound a burst of them, or any
# other process, may wake the kernel's OOM killer. Bytes and not shares: a large host with 2 % free
# is well, a small one with 10 % free is not.
_ABOVE_BYTES = {
    Pressure.CRITICAL: 0,
    Pressure.HIGH: 128 << 20,
    Pressure.ELEVATED: 256 << 20,
    Pressure.LOW: 512 << 20,
}


def pressure_of(available_bytes: int) -> Pressure:
    """LOW from 512 MiB available, ELEVATED from 256, HIGH from 128, CRITICAL below."""
    reached = (level for level, bound in _ABOVE_BYTES.items() if available_bytes >= bound)
    return min(reached, default=Pressure.CRITICAL)


class PressureReading(Protocol):
    """The host's pressure now, or as it would be with so many bytes less. Never waits."""

    def __call__(self, needed_bytes: int = 0) -> Pressure: ...


def no_pressure(needed_bytes: int = 0) -> Pressure:
    return Pressure.LOW


class PressureGauge:
    """The newest reading, for any thread at no cost. Its own thread reads, since that may take a while."""

    def __init__(self, available_bytes: Callable[[], int]) -> None:
        self._available_bytes = available_bytes
        self._newest_bytes: int | None = None  # until the first reading
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pressure", daemon=True)

    def __call__(self, needed_bytes: int = 0) -> Pressure:
        newest_bytes = self._newest_bytes
        return Pressure.LOW if newest_bytes is None else pressure_of(newest_bytes - needed_bytes)

    def start(self) -> None:
        """Take the first reading, and go on every INTERVAL_S."""
        self.read()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def read(self) -> None:
        """A reading that fails changes nothing: no host is refused for want of a /proc."""
        before = self()
        try:
            self._newest_bytes = max(self._available_bytes(), 0)
        except OSError as error:
            logger.debug("the host's memory cannot be read: %s", error)
            return
        if self() is not before:
            logger.info("memory pressure is %s, it was %s", self().name, before.name)

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            self.read()
