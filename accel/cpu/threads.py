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
BEAR_S = 2.0  # after it was no faster alone, until that is tried again
NEWEST_SHARE = 0.1  # of the newest step in what one takes with everybody


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

    A helper whose core went to another thread stalls everybody at the next meeting. One that has come to
    share thread 0's core makes it wait a little at every meeting (SmolLM2 beside a busy loop, two cores:
    19 ms a step instead of 3); then thread 0 waits for longer than it works, and is as fast alone. One stall
    is forgiven; after a second one soon, thread 0 goes on alone for a while, longer while stalls go on.
    Where that was no faster, stalls are borne for some time, as long as it would be no faster now: half a
    core is worth more than none when what takes the other half is short, such as this process's own
    answers to its clients.
    """

    def __init__(self, num_threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._num_threads, self._clock = num_threads, clock
        self._alone_until = self._last_stall = self._bear_until = float("-inf")
        self._pause_s = FIRST_PAUSE_S
        self._is_alone = False  # in the step that was asked for last
        self._together_s = 0.0  # what a step takes with everybody, lately
        self._alone_s: list[float] = []  # what steps took since thread 0 went on alone
        self._mean_alone_s = 0.0  # when it last did

    def num_threads(self) -> int:
        """Asked once before each step; `note_step` tells afterwards what it took."""
        self._is_alone = self._num_threads > 1 and self._clock() < self._alone_until
        return 1 if self._is_alone else self._num_threads

    def note_step(self, step_s: float, longest_wait_s: float, waited_s: float) -> None:
        """What the last step took, and the longest wait within it and all of them together."""
        if self._is_alone:
            self._alone_s.append(step_s)
            return
        if self._alone_s:
            self._mean_alone_s = sum(self._alone_s) / len(self._alone_s)
            if self._mean_alone_s > self._together_s:
                self._bear_until = self._clock() + BEAR_S
            self._alone_s = []
        earlier_s = self._together_s or step_s
        self._together_s = earlier_s + NEWEST_SHARE * (step_s - earlier_s)
        if longest_wait_s >= STALL_S or waited_s >= max(STALL_S, step_s / 2):
            now = self._clock()
            if now >= self._bear_until or self._together_s > self._mean_alone_s:
                self._note_stall(now)

    def _note_stall(self, now: float) -> None:
        if now - self._last_stall < REPEATED_S or now < self._alone_until + REPEATED_S:
            soon = now < self._alone_until + 4 * self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S) if soon else FIRST_PAUSE_S
            self._alone_until = now + self._pause_s
        self._last_stall = now
