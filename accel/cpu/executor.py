"""A compiled program with its memory and threads: one native call per step.

Owns the step header; knows no op. A step's arrays are read where they lie, and everything else is
checked and allocated before the first step, so a step like the one before does a few writes and one call.
"""

from __future__ import annotations

import struct
import time
import weakref
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import MemoryUse
from accel.cpu.threads import Company, Helpers
from kernels.cpu.best import FOUND_BYTES
from kernels.cpu.layout import (
    NARROW_ROWS,
    S_LOGITS,
    S_LONGEST_WAIT,
    S_ROWS,
    S_THREADS,
    S_WAITED,
    STEP,
)
from kernels.cpu.machine import BARRIER_BYTES, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from accel.backend import Limits, StepBatch

SPINS = 3000  # of a waiter before it sleeps: some 50 us
# Of a helper between two steps, longer than the engine's own work takes: to be woken from an idle core
# would take as long again.
STEP_SPINS = 12_000
_FOUND = struct.Struct("=fi")  # as in kernels.cpu.best
assert _FOUND.size == FOUND_BYTES


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
        best: npt.NDArray[np.uint8],
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
        self._table, self._limits, self._counter_hz = table, limits, counter_hz
        self._logits = [logits[:n] for n in range(limits.max_logit_rows + 1)]  # as many as wanted
        self._best = best.data
        self._batch: StepBatch | None = None  # what the header points at
        self._header = np.zeros(len(STEP), np.int64)
        # What changes in every step is written through views: NumPy's own code is cold by then.
        self._step, self._claims = self._header.data, counters.data
        self._no_claims = np.zeros_like(counters).data
        self._set(
            S_MAX_PAGES=limits.max_pages_per_slot,
            S_BARRIER=barrier,
            S_SCRATCH=scratch,
            S_SCRATCH_BYTES=len(scratch) // limits.num_threads,
            S_SPINS=SPINS,
            S_STEP_SPINS=STEP_SPINS,
            S_THREADS=limits.num_threads,
        )
        self._company = Company(limits.num_threads)
        self._keep: object = (keep, scratch, barrier, counters)
        helpers = Helpers(table, self._header, limits.num_threads)
        # The helpers' memory must outlive them, also when nobody calls close().
        self._finalizer = weakref.finalize(self, _stop, helpers, self._keep)

    def start(self, batch: StepBatch) -> None:
        """Run the step to its end; see accel.backend.Executor."""
        assert self._finalizer.alive, "the executor is closed"
        if batch is not self._batch:
            self._point_at(batch)
        step = self._step
        # In a wide step an op takes longer than a time slice: half a core more is never worse than none.
        wide = step[S_ROWS] > NARROW_ROWS
        step[S_THREADS] = self._limits.num_threads if wide else self._company.num_threads()
        step[S_LONGEST_WAIT] = step[S_WAITED] = 0
        self._claims[:] = self._no_claims
        started_s = time.perf_counter()
        run(self._table, self._header, 0)
        if not wide:
            step_s, hz = time.perf_counter() - started_s, self._counter_hz
            self._company.note_step(step_s, step[S_LONGEST_WAIT] / hz, step[S_WAITED] / hz)

    def finish(self) -> npt.NDArray[np.float32]:
        """See accel.backend.Executor."""
        return self._logits[self._step[S_LOGITS]]

    def best(self) -> list[tuple[float, int]]:
        """See accel.backend.RankingExecutor."""
        return list(_FOUND.iter_unpack(self._best[: self._step[S_LOGITS] * FOUND_BYTES]))

    def close(self) -> None:
        """Stop the threads and let the memory go. Safe to call twice."""
        self._finalizer()
        self._keep = self._batch = None
        self._logits, self._best = [], memoryview(b"")

    def profile(self, cycles: npt.NDArray[np.int64] | None) -> None:
        """From the next step on, add up thread 0's cycles of work and of waiting per op; None: stop.

        Shapes: cycles (len(labels), 2) int64. It must live until stopped.
        """
        self._set(S_PROFILE=0 if cycles is None else cycles)

    def _point_at(self, batch: StepBatch) -> None:
        """Where a batch's arrays lie: who fills the same ones for every step has them read as they are."""
        n, num_logits, limits = len(batch.tokens), len(batch.logit_rows), self._limits
        assert 0 < n <= limits.max_rows and num_logits <= limits.max_logit_rows
        assert len(batch.positions) == n == len(batch.slots)
        assert batch.page_table.shape == (limits.num_slots, limits.max_pages_per_slot)
        columns = {
            "S_TOKENS": batch.tokens,
            "S_POSITIONS": batch.positions,
            "S_SLOTS": batch.slots,
            "S_LOGIT_ROWS": batch.logit_rows,
            "S_PAGES": batch.page_table,
        }
        assert all(a.dtype == np.int32 and a.flags.c_contiguous for a in columns.values())
        self._set(S_ROWS=n, S_LOGITS=num_logits, **columns)
        self._batch = batch

    def _set(self, **columns: int | npt.NDArray[np.generic]) -> None:
        for name, value in columns.items():
            self._header[STEP[name]] = value.ctypes.data if isinstance(value, np.ndarray) else value


def _stop(helpers: Helpers, keep: object) -> None:
    helpers.stop()
