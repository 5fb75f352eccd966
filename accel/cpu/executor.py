"""A compiled program with its memory and threads: one native call per step.

Owns the step header and what it points at; knows no op. Everything is checked and allocated before the
first step, so a step does a handful of array writes and one call.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import MemoryUse
from accel.cpu.threads import Company, Helpers
from kernels.cpu.layout import (
    NARROW_ROWS,
    S_LOGITS,
    S_LONGEST_WAIT,
    S_ROWS,
    S_THREADS,
    STEP,
)
from kernels.cpu.machine import BARRIER_BYTES, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from accel.backend import Limits, StepBatch

SPINS = 3000  # of a waiter before it sleeps: some 50 us


class CpuExecutor:
    """`labels` name the ops of the table, `counters` are what its matmuls claim from.

    `keep` is whatever the table's addresses point into.
    """

    num_in_flight = 1

    def __init__(
        self,
        table: npt.NDArray[np.int64],
        counters: npt.NDArray[np.int32],
        labels: Sequence[str],
        logits: npt.NDArray[np.float32],
        limits: Limits,
        memory: MemoryUse,
        scratch: npt.NDArray[np.uint8],
        barrier: npt.NDArray[np.uint8],
        keep: object,
        counter_hz: float,
    ) -> None:
        assert len(barrier) == BARRIER_BYTES
        self.labels = labels
        self.memory = memory
        self._table, self._counters = table, counters
        self._logits, self._limits = logits, limits
        self._counter_hz = counter_hz
        self._rows = np.zeros((3, limits.max_rows), np.int32)  # tokens, positions, slots
        self._logit_rows = np.zeros(limits.max_logit_rows, np.int32)
        self._page_table = np.zeros((limits.num_slots, limits.max_pages_per_slot), np.int32)
        self._header = np.zeros(len(STEP), np.int64)
        self._set(
            S_TOKENS=self._rows[0],
            S_POSITIONS=self._rows[1],
            S_SLOTS=self._rows[2],
            S_LOGIT_ROWS=self._logit_rows,
            S_PAGES=self._page_table,
            S_MAX_PAGES=limits.max_pages_per_slot,
            S_BARRIER=barrier,
            S_SCRATCH=scratch,
            S_SCRATCH_BYTES=len(scratch) // limits.num_threads,
            S_SPINS=SPINS,
            S_THREADS=limits.num_threads,
        )
        self._company = Company(limits.num_threads)
        self._keep: object = (keep, scratch, barrier, counters)
        helpers = Helpers(table, self._header, limits.num_threads)
        # The helpers' memory must outlive them, also when nobody calls close().
        self._finalizer = weakref.finalize(
            self, _stop, helpers, (self._keep, self._rows, self._logit_rows, self._page_table)
        )

    def start(self, batch: StepBatch) -> None:
        """Run the step to its end; see accel.backend.Executor."""
        n, num_logits = len(batch.tokens), len(batch.logit_rows)
        limits, header = self._limits, self._header
        assert self._finalizer.alive, "the executor is closed"
        assert 0 < n <= limits.max_rows and num_logits <= limits.max_logit_rows
        rows = self._rows
        rows[0, :n], rows[1, :n], rows[2, :n] = batch.tokens, batch.positions, batch.slots
        self._logit_rows[:num_logits] = batch.logit_rows
        if batch.page_table is not self._page_table:
            self._read_pages_from(batch.page_table)
        header[S_ROWS], header[S_LOGITS] = n, num_logits
        # In a wide step an op takes longer than a time slice: half a core more is never worse than none.
        wide = n > NARROW_ROWS
        header[S_THREADS] = limits.num_threads if wide else self._company.num_threads()
        header[S_LONGEST_WAIT] = 0
        self._counters.fill(0)
        started_s = time.perf_counter()
        run(self._table, header, 0)
        if not wide:
            longest_wait_s = float(header[S_LONGEST_WAIT]) / self._counter_hz
            self._company.note_step(time.perf_counter() - started_s, longest_wait_s)

    def finish(self) -> npt.NDArray[np.float32]:
        """See accel.backend.Executor."""
        return self._logits[: self._header[S_LOGITS]]

    def close(self) -> None:
        """Stop the threads and let the memory go. Safe to call twice."""
        self._finalizer()
        self._keep = None
        self._logits = np.zeros((0, 0), np.float32)

    def profile(self, cycles: npt.NDArray[np.int64] | None) -> None:
        """From the next step on, add up thread 0's cycles of work and of waiting per op; None: stop.

        Shapes: cycles (len(labels), 2) int64. It must live until stopped.
        """
        self._set(S_PROFILE=0 if cycles is None else cycles)

    def _read_pages_from(self, page_table: npt.NDArray[np.int32]) -> None:
        """Where it lies, for a step copies little. Who fills it uses one array for all steps."""
        assert page_table.shape == self._page_table.shape
        assert page_table.dtype == np.int32 and page_table.flags.c_contiguous
        self._page_table = page_table
        self._set(S_PAGES=page_table)

    def _set(self, **columns: int | npt.NDArray[np.generic]) -> None:
        for name, value in columns.items():
            self._header[STEP[name]] = value.ctypes.data if isinstance(value, np.ndarray) else value


def _stop(helpers: Helpers, keep: object) -> None:
    helpers.stop()
