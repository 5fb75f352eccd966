"""The compute threads of one executor, and how many of them take part in a step.

Owns helper threads from start to stop, and the policy of going on alone; knows no program. Results do
not depend on the number of threads, so it may change from step to step.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kernels.cpu.layout import S_STOP
from kernels.cpu.machine import run

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

STALL_S = 0.001  # thread 0 waited this much longer than it worked: a helper has lost its core
REPEATED_S = 0.05  # two stalls within this time mean that somebody else wants our cores
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.4


class Helpers:
    """Threads 1 .. num_threads - 1, asleep in native code between steps."""

    def __init__(
        self, table: npt.NDArray[np.int64], header: npt.NDArray[np.int64], num_threads: int
    ) -> None:
        self._table, self._header = table, header
        # Daemons, for a process that ends without close(): they never touch Python again.
        self._threads = [
            threading.Thread(
                target=run, args=(table, header, tid), name=f"cpu-compute-{tid}", daemon=True
            )
            for tid in range(1, num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop and join. Safe to call twice."""
        if not self._threads:
            return
        self._header[S_STOP] = 1
        run(self._table, self._header, 0)
        for thread in self._threads:
            thread.join()
        self._threads = []


class Company:
    """How many threads the next step should use.

    A helper whose core went to another process stalls everybody at the next meeting. One stall is
    forgiven; after a second one soon, thread 0 goes on alone for a while, longer while stalls go on.
    """

    def __init__(self, num_threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._num_threads, self._clock = num_threads, clock
        self._alone_until = self._last_stall = float("-inf")
        self._pause_s = FIRST_PAUSE_S

    def num_threads(self) -> int:
        return (
            1 if self._num_threads > 1 and self._clock() < self._alone_until else self._num_threads
        )

    def note_longest_wait(self, wait_s: float) -> None:
        """What the last step's longest wait says."""
        if wait_s < STALL_S:
            return
        now = self._clock()
        if now - self._last_stall < REPEATED_S or now < self._alone_until + REPEATED_S:
            soon = now < self._alone_until + 4 * self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S) if soon else FIRST_PAUSE_S
            self._alone_until = now + self._pause_s
        self._last_stall = now
