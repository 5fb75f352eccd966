"""A program on its dies: runs steps, part by part and stage by stage, and fetches the logits.

Owns the order of a step and what crosses between dies; knows no op. Used by one thread at a time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import MemoryUse
from accel.cuda.peer import Crossing
from accel.cuda.plan import Counts
from accel.cuda.step_parts import step_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from accel.backend import Limits, StepBatch
    from accel.cuda.stage import Stage


class CudaExecutor:
    """`stages` are loaded, each on a die of its own, in the order of the program."""

    num_in_flight = 1

    def __init__(
        self, stages: Sequence[Stage], limits: Limits, vocab_size: int, run_len: int
    ) -> None:
        self._stages, self._limits, self._run_len = stages, limits, run_len
        self._crossings = [
            Crossing(before.die, after.die, 4 * limits.max_rows * before.plan.lowered.output_stride)
            for before, after in pairwise(stages)
        ]
        self._logits_stride = stages[-1].plan.lowered.output_stride
        self._vocab_size = vocab_size
        last = stages[-1].die
        with last.current():
            shape = (limits.max_logit_rows, self._logits_stride)
            self._logits: npt.NDArray[np.float32] = last.pinned(shape, np.float32).array

    @property
    def memory(self) -> MemoryUse:
        plans = [stage.plan for stage in self._stages]
        weights, kv, buffers = (
            sum(plan.num_bytes(kind) for plan in plans) for kind in ("weights", "kv", "buffers")
        )
        return MemoryUse(weights, kv, buffers)

    def start(self, batch: StepBatch) -> None:
        """Put the step in the streams of all dies. Raises: DieFailed."""
        assert 0 < len(batch.tokens) <= self._limits.max_rows
        assert len(batch.logit_rows) <= self._limits.max_logit_rows
        self._num_logits = 0
        for part, rows in enumerate(step_parts(batch, len(self._stages))):
            self._run(part, rows)
            self._num_logits += self._fetch(rows, self._num_logits)

    def finish(self) -> npt.NDArray[np.float32]:
        """Logits (L, vocab_size) f32 of the step started. Raises: DieFailed."""
        last = self._stages[-1].die
        with last.current():
            last.synchronize()
        return self._logits[: self._num_logits, : self._vocab_size]

    def _run(self, part: int, rows: StepBatch) -> None:
        """Put the launches of some rows of the step in the streams of all dies."""
        num_runs = int(rows.positions.max()) // self._run_len + 1
        counts = Counts(len(rows.tokens), len(rows.logit_rows), num_runs)
        for i, stage in enumerate(self._stages):
            with stage.die.current():
                stage.send_inputs(part, rows)
                if i:
                    self._cross(i - 1, counts.num_rows)
                stage.run(counts)

    def _fetch(self, rows: StepBatch, at: int) -> int:
        """Let the rows' logits follow at row `at` of the result; returns how many there are."""
        num_rows = len(rows.logit_rows)
        if num_rows:
            last = self._stages[-1]
            with last.die.current():
                logits = self._logits[at : at + num_rows]
                last.die.copy_out(logits, last.address(last.plan.lowered.output))
        return num_rows

    def close(self) -> None:
        """Give the dies back. Safe to call twice, from any thread, whatever state the dies are in."""
        for stage in self._stages:
            stage.die.close()

    def _cross(self, i: int, num_rows: int) -> None:
        before, after = self._stages[i], self._stages[i + 1]
        sent, received = before.plan.lowered.output, after.plan.lowered.received
        assert received is not None
        num_bytes = 4 * num_rows * before.plan.lowered.output_stride
        self._crossings[i].copy(after.address(received), before.address(sent), num_bytes)
