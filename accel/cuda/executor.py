"""A program on its dies: runs steps, part by part and stage by stage, and fetches or surveys the logits.

Owns the order of steps and what crosses between dies; knows no op. Used by one thread at a time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from accel.backend import MemoryUse
from accel.cuda.hung import Mark
from accel.cuda.peer import Crossing
from accel.cuda.plan import Counts
from accel.cuda.step_parts import max_parts, step_parts
from accel.cuda.survey import findings_of
from accel.survey import Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from accel.backend import Limits, StepBatch
    from accel.cuda.stage import Stage
    from accel.cuda.survey import SurveyLane
    from accel.survey import Finding, Survey


MOST_IN_FLIGHT = 2  # with more a sequence would wait longer for its turn, and two dies be no busier


@dataclass(eq=False)
class _Lane:
    """What a step in flight has of its own. inputs: of each stage, (num_parts, num_values) int32.

    kept: where the last die keeps the step's logits while it is surveyed, and until the lane's next step.
    done: of each stage, a pycuda Event for every part: it has run.
    """

    inputs: tuple[npt.NDArray[np.int32], ...]
    logits: npt.NDArray[np.float32]
    end: Any  # a pycuda Event of the last die: the logits are there
    survey: SurveyLane
    kept: int
    done: tuple[tuple[Any, ...], ...]
    num_logits: int = 0


def num_in_flight(num_stages: int) -> int:
    return min(num_stages, MOST_IN_FLIGHT)


class CudaExecutor:
    """`stages` are loaded, each on a die of its own, in the order of the program.

    Two steps may be in flight, so that the first die has the second step while the last die has the first.
    They share the dies' memory, buffers and inputs included: a die's work is in one stream, and a crossing
    keeps the order of both its streams, so the second step writes where the first has read. What the host
    writes and reads each has for itself, as the host does not wait for streams.
    """

    def __init__(
        self, stages: Sequence[Stage], limits: Limits, vocab_size: int, run_len: int
    ) -> None:
        self._stages, self._limits, self._run_len = stages, limits, run_len
        self._crossings = [
            Crossing(before.die, after.die, 4 * limits.max_rows * before.plan.lowered.output_stride)
            for before, after in pairwise(stages)
        ]
        self._vocab_size = vocab_size
        self.num_in_flight = num_in_flight(len(stages))
        self.traffic = Traffic()
        self._surveyor = stages[-1].surveyor()
        self._free = deque(self._new_lane(number) for number in range(self.num_in_flight))
        self._in_flight: deque[_Lane] = deque()
        self._marks: deque[Mark] = deque()  # of the steps in flight

    def _new_lane(self, number: int) -> _Lane:
        num_parts = max_parts(self._limits.max_rows, len(self._stages))
        inputs, done = [], []
        for stage in self._stages:
            with stage.die.current():
                inputs.append(stage.new_inputs(num_parts))
                done.append(tuple(stage.die.new_event() for _ in range(num_parts)))
        last = self._stages[-1]
        shape = (self._limits.max_logit_rows, last.plan.lowered.output_stride)
        assert last.plan.survey is not None
        kept = last.plan.survey.logits
        with last.die.current():
            return _Lane(
                tuple(inputs),
                last.die.pinned(shape, np.float32).array,
                last.die.new_event(),
                self._surveyor.new_lane(),
                last.address(kept[number] if kept else last.plan.lowered.output),
                tuple(done),
            )

    @property
    def memory(self) -> MemoryUse:
        plans = [stage.plan for stage in self._stages]
        weights, kv, buffers = (
            sum(plan.num_bytes(kind) for plan in plans) for kind in ("weights", "kv", "buffers")
        )
        return MemoryUse(weights, kv, buffers)

    def start(self, batch: StepBatch) -> None:
        """Put the step in the streams of all dies. Raises: DieFailed."""
        self._start(batch, None)

    def start_surveyed(self, batch: StepBatch, surveys: Sequence[Survey]) -> None:
        """See accel.survey.SurveyingExecutor. Raises: DieFailed."""
        self._start(batch, surveys)

    def _start(self, batch: StepBatch, surveys: Sequence[Survey] | None) -> None:
        assert 0 < len(batch.tokens) <= self._limits.max_rows
        assert len(batch.logit_rows) <= self._limits.max_logit_rows
        lane = self._free.popleft()
        self._in_flight.append(lane)
        lane.num_logits = 0
        for part, rows in enumerate(step_parts(batch, len(self._stages))):
            self._run(lane, part, rows)
            if surveys is None:
                self._fetch(lane, rows)
            else:
                self._keep(lane, rows)
        last = self._stages[-1].die
        with last.current():
            if surveys is not None:
                self._surveyor.start(lane.survey, surveys, lane.kept)
            last.record(lane.end)
        self._marks.append(Mark(last, lane.end))

    def finish(self) -> npt.NDArray[np.float32]:
        """Logits (L, vocab_size) f32 of the oldest step. Raises: DieFailed."""
        lane = self._wait()
        return lane.logits[: lane.num_logits, : self._vocab_size]

    def finish_surveyed(self) -> list[Finding]:
        """See accel.survey.SurveyingExecutor. Raises: DieFailed."""
        self._surveyed = lane = self._wait()
        self.traffic.num_rows += lane.num_logits
        self.traffic.num_answer_bytes += lane.survey.num_answer_bytes
        return findings_of(lane.survey)

    def logits(self, row: int, first: int, end: int) -> npt.NDArray[np.float32]:
        """See accel.survey.SurveyingExecutor. Raises: DieFailed."""
        lane, last = self._surveyed, self._stages[-1]
        wanted = lane.logits[row, first:end]
        with last.die.current():
            last.die.fetch(wanted, lane.kept + 4 * (row * lane.logits.shape[1] + first))
        self.traffic.num_logits += end - first
        return wanted

    def _wait(self) -> _Lane:
        lane = self._in_flight.popleft()
        last = self._stages[-1].die
        with last.current():
            last.wait(lane.end, self._marks)  # not for the stream, which may have the next step
        while self._marks.popleft().event is not lane.end:
            pass
        self._free.append(lane)
        return lane

    def _run(self, lane: _Lane, part: int, rows: StepBatch) -> None:
        """Put the launches of some rows of the step in the streams of all dies."""
        num_runs = int(rows.positions.max()) // self._run_len + 1
        counts = Counts(len(rows.tokens), len(rows.logit_rows), num_runs)
        for i, stage in enumerate(self._stages):
            with stage.die.current():
                stage.send_inputs(lane.inputs[i][part], rows)
                if i:
                    self._cross(i - 1, counts.num_rows)
                stage.run(counts, self._marks)
                stage.die.record(lane.done[i][part])
            self._marks.append(Mark(stage.die, lane.done[i][part], counts.num_rows))

    def _fetch(self, lane: _Lane, rows: StepBatch) -> None:
        """Let the rows' logits follow those of the step that are fetched already."""
        num_rows = len(rows.logit_rows)
        if num_rows:
            last = self._stages[-1]
            with last.die.current():
                logits = lane.logits[lane.num_logits : lane.num_logits + num_rows]
                last.die.copy_out(logits, last.address(last.plan.lowered.output))
            lane.num_logits += num_rows

    def _keep(self, lane: _Lane, rows: StepBatch) -> None:
        """Put the rows' logits where the step after this one, and its next part, write none."""
        last, num_rows = self._stages[-1], len(rows.logit_rows)
        output, row_bytes = last.address(last.plan.lowered.output), 4 * lane.logits.shape[1]
        if num_rows and lane.kept != output:
            with last.die.current():
                target = lane.kept + lane.num_logits * row_bytes
                last.die.copy_within(target, output, num_rows * row_bytes)
        lane.num_logits += num_rows

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
