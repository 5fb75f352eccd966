"""Surveys of logits on the die that has them: their memory, their launches, and the answers.

Owns what lies where and the order of the launches (kernels/cuda/survey.cuh); knows no stage and no step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from accel.cuda.plan import Area, At, aligned
from accel.survey import MOST_ADJUSTMENTS, MOST_KEPT, Finding
from kernels.cuda import catalogue
from kernels.cuda import survey as layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from accel.backend import Limits
    from accel.cuda.die import Die
    from accel.cuda.modules import Modules
    from accel.survey import Survey
    from kernels.cuda.catalogue import Kernel
    from kernels.cuda.launches import Grid

KERNELS = (
    *(catalogue.GROUP_PEAKS, catalogue.ROW_PEAK, catalogue.WEIGH_RUNS, catalogue.HEAVIEST),
    *(catalogue.DRAW, catalogue.ADJUST_LOGITS, catalogue.RESTORE_LOGITS),
)
_FINDING_BYTES = layout.FINDING.itemsize
_PAIR_BYTES = layout.PAIR.itemsize


class SurveyMemory:
    """What surveys need of a die: scratch of one step, and the logits of num_kept steps.

    Shapes: logits (limits.max_logit_rows, stride) f32, of which `width` values a row are used.
    """

    def __init__(self, limits: Limits, width: int, stride: int, num_kept: int) -> None:
        self.width, self.stride = width, stride
        self.num_surveys = n = 2 * limits.max_logit_rows
        self.num_adjustments = limits.max_logit_rows * MOST_ADJUSTMENTS
        self.answer_bytes = n * (_FINDING_BYTES + _PAIR_BYTES * MOST_KEPT)
        sizes = (
            n * layout.SURVEY.itemsize,
            self.num_adjustments * layout.ADJUSTMENT.itemsize,
            self.num_adjustments * 4,
            n * layout.GROUPS * _PAIR_BYTES,
            n * layout.num_runs(width) * 4,
            n * layout.COLLECTED * _PAIR_BYTES,
            self.answer_bytes,
            *(limits.max_logit_rows * stride * 4 for _ in range(num_kept)),
        )
        starts = (0, *accumulate(aligned(size) for size in sizes))
        self.area = Area("buffers", "surveys of logits", starts[-1])
        places = [At(self.area, start) for start in starts[:-1]]
        self.surveys, self.adjustments, self.saved, self.groups = places[:4]
        self.sums, self.collected, self.answers = places[4:7]
        self.logits = tuple(places[7:])


@dataclass(eq=False)
class SurveyLane:
    """The host's side of one step's surveys, page-locked: what is sent, and what comes back."""

    surveys: npt.NDArray[np.void]
    adjustments: npt.NDArray[np.void]
    answers: npt.NDArray[np.uint8]
    asked: tuple[Survey, ...] = ()  # in the order of the records
    order: tuple[int, ...] = ()  # where each of them stood in the question
    num_answer_bytes: int = 0


class Surveyor:
    """Surveys on one die, one step after another in its stream. Calls need the die to be current.

    address: where a place lies once the die's memory is allocated.
    """

    def __init__(
        self, die: Die, modules: Modules, memory: SurveyMemory, address: Callable[[At], int]
    ) -> None:
        self._die, self._modules, self._memory, self._address = die, modules, memory, address

    def new_lane(self) -> SurveyLane:
        memory = self._memory

        def pinned(dtype: np.dtype[np.void], count: int) -> npt.NDArray[np.void]:
            return self._die.pinned((dtype.itemsize * count,), np.uint8).array.view(dtype)

        return SurveyLane(
            pinned(layout.SURVEY, memory.num_surveys),
            pinned(layout.ADJUSTMENT, memory.num_adjustments),
            self._die.pinned((memory.answer_bytes,), np.uint8).array,
        )

    def start(self, lane: SurveyLane, surveys: Sequence[Survey], logits: int) -> None:
        """Put the surveys of the rows at an address in the stream. They leave the logits as they were."""
        adjusted = {survey.row for survey in surveys if survey.adjustments is not None}
        # What is asked about a row that others adjust must be found before.
        early = [survey.adjustments is None and survey.row in adjusted for survey in surveys]
        lane.order = tuple(sorted(range(len(surveys)), key=lambda i: not early[i]))
        lane.asked = tuple(surveys[i] for i in lane.order)
        num_kept = self._send_surveys(lane)
        lane.num_answer_bytes = _FINDING_BYTES * len(surveys) + _PAIR_BYTES * num_kept
        if not surveys:
            return
        num_early = sum(early)
        self._find(lane, 0, num_early, logits)
        num_adjustments = self._send_adjustments(lane)
        places = (self._memory.adjustments, logits, self._memory.saved, num_adjustments)
        grid = layout.adjust_grid(num_adjustments)
        if num_adjustments:
            self._launch(catalogue.ADJUST_LOGITS, grid, *places)
        self._find(lane, num_early, len(surveys), logits)
        if num_adjustments:
            self._launch(catalogue.RESTORE_LOGITS, grid, *places)
        answers = lane.answers[: lane.num_answer_bytes]
        self._die.copy_out(answers, self._address(self._memory.answers))

    def _send_surveys(self, lane: SurveyLane) -> int:
        """Returns how many of the heaviest they want together."""
        start = 0
        for record, survey in enumerate(lane.asked):
            uniform = -1.0 if survey.uniform is None else survey.uniform
            lane.surveys[record] = (uniform, survey.row, survey.scale, survey.num_kept, start)
            start += survey.num_kept
        if lane.asked:
            self._send(self._memory.surveys, lane.surveys[: len(lane.asked)])
        return start

    def _send_adjustments(self, lane: SurveyLane) -> int:
        """Returns how many there are."""
        end = 0
        for survey in lane.asked:
            if survey.adjustments is None:
                continue
            changes, start = survey.adjustments, end
            end = start + len(changes.ids)
            records = lane.adjustments[start:end]
            records["at"] = survey.row * self._memory.stride + changes.ids
            records["repeat"], records["subtract"] = changes.repeat, changes.subtract
            records["bias"] = changes.bias
        if end:
            self._send(self._memory.adjustments, lane.adjustments[:end])
        return end

    def _send(self, at: At, records: npt.NDArray[np.void]) -> None:
        self._die.copy_in(self._address(at), records.view(np.uint8))

    def _find(self, lane: SurveyLane, first: int, end: int, logits: int) -> None:
        """The launches of some of the surveys."""
        memory, n, asked = self._memory, end - first, lane.asked[first:end]
        if not n:
            return
        surveys = memory.surveys.plus(first * layout.SURVEY.itemsize)
        groups = memory.groups.plus(first * layout.GROUPS * _PAIR_BYTES)
        findings = memory.answers.plus(first * _FINDING_BYTES)
        sums = memory.sums.plus(first * layout.num_runs(memory.width) * 4)
        collected = memory.collected.plus(first * layout.COLLECTED * _PAIR_BYTES)
        size, row_grid = (memory.width, memory.stride), layout.row_grid(n)
        self._launch(catalogue.GROUP_PEAKS, layout.group_grid(n), surveys, logits, groups, *size)
        self._launch(catalogue.ROW_PEAK, row_grid, surveys, groups, findings)
        if not any(survey.scale for survey in asked):
            return
        places = (surveys, logits, findings, sums)
        weigh_grid = layout.weigh_grid(memory.width, n)
        self._launch(catalogue.WEIGH_RUNS, weigh_grid, *places, collected, *size)
        if any(survey.num_kept for survey in asked):
            kept = memory.answers.plus(len(lane.asked) * _FINDING_BYTES)
            self._launch(catalogue.HEAVIEST, row_grid, surveys, findings, collected, kept)
        self._launch(catalogue.DRAW, row_grid, *places, *size)

    def _launch(self, kernel: Kernel, grid: Grid, *arguments: At | int) -> None:
        passed = (self._address(a) if isinstance(a, At) else a for a in arguments)
        self._modules.launch_of(kernel)(grid, *passed)


def findings_of(lane: SurveyLane) -> list[Finding]:
    """The answers of a lane, once the stream has passed them, in the order of the questions."""
    count = len(lane.asked)
    end = count * _FINDING_BYTES
    records = lane.answers[:end].view(layout.FINDING)
    pairs = lane.answers[end : lane.num_answer_bytes].view(layout.PAIR)
    found: dict[int, Finding] = {}
    start = 0
    for place, survey, record in zip(lane.order, lane.asked, records, strict=True):
        kept = pairs[start : start + survey.num_kept]
        start += survey.num_kept
        in_order = survey.num_kept and record["num_collected"] <= layout.COLLECTED
        drawn = int(record["drawn"])
        found[place] = Finding(
            float(record["peak"]),
            int(record["best"]),
            float(record["total"]),
            None if drawn < 0 else (drawn, float(record["drawn_logit"])),
            layout.unpack(kept) if in_order else None,
        )
    return [found[place] for place in range(count)]
