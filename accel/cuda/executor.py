"""A program on its dies: runs steps, one stage after another, and fetches the logits.

Owns the order of a step and what crosses between dies; knows no op. Used by one thread at a time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import MemoryUse
from accel.cuda.peer import Crossing
from accel.cuda.plan import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from accel.backend import Limits, StepBatch
    from accel.cuda.stage import Stage


class CudaExecutor:
    """`stages` are loaded, each on a die of its own, in the order of the program."""

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

    def step(self, batch: StepBatch) -> npt.NDArray[np.float32]:
        """Run the step; returns logits (L, vocab_size) f32, valid until the next. Raises: DieFailed."""
        num_rows, num_logit_rows = len(batch.tokens), len(batch.logit_rows)
        assert 0 < num_rows <= self._limits.max_rows
        assert num_logit_rows <= self._limits.max_logit_rows
        num_runs = int(batch.positions.max()) // self._run_len + 1
        counts = Counts(num_rows, num_logit_rows, num_runs)
        for stage in self._stages:
            with stage.die.current():
                stage.send_inputs(batch)
        for i, stage in enumerate(self._stages):
            with stage.die.current():
                stage.run(counts)
            if i < len(self._crossings):
                self._cross(i, num_rows)
        last = self._stages[-1]
        logits = self._logits[:num_logit_rows]
        with last.die.current():
            if num_logit_rows:
                last.die.copy_out(logits, last.address(last.plan.lowered.output))
            last.die.synchronize()
        return logits[:, : self._vocab_size]

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
