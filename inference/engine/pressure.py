"""How short the host is of memory, as levels. Owns the thresholds and one reading at a time.

Knows no request; what a level means for one is the scheduler's.
"""

from __future__ import annotations

import logging
import threading
from enum import IntEnum
from typing import TYPE_CHECKING

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
    return min(level for level, bound in _ABOVE_BYTES.items() if available_bytes >= bound)


def no_pressure() -> Pressure:
    return Pressure.LOW


class PressureGauge:
    """The newest reading, for any thread at no cost. Its own thread reads, since that may take a while."""

    def __init__(self, available_bytes: Callable[[], int]) -> None:
        self._available_bytes = available_bytes
        self._pressure = Pressure.LOW
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pressure", daemon=True)

    def __call__(self) -> Pressure:
        return self._pressure

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
        try:
            pressure = pressure_of(self._available_bytes())
        except OSError as error:
            logger.debug("the host's memory cannot be read: %s", error)
            return
        if pressure is not self._pressure:
            logger.info("memory pressure is %s, it was %s", pressure.name, self._pressure.name)
        self._pressure = pressure

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            self.read()
