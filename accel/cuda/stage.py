"""A stage in the memory of its die: areas allocated, weights uploaded, kernels loaded, launches prepared.

Owns that order and the addresses; decides nothing. One thread at a time uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel.cuda.graphs import record
from accel.cuda.modules import Modules
from accel.cuda.plan import At, Counts
from accel.cuda.survey import KERNELS, Surveyor
from accel.cuda.upload import uploading
from kernels.specs.program import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from accel.backend import StepBatch
    from accel.cuda.die import Die
    from accel.cuda.graphs import Graph
    from accel.cuda.hung import Mark
    from accel.cuda.lowering import Lowered
    from accel.cuda.modules import Launch
    from accel.cuda.plan import Area, Argument
    from accel.cuda.step_inputs import StepInputs
    from accel.cuda.survey import SurveyMemory
    from accel.cuda.vectors import Vectors
    from kernels.cuda.launches import Grid

_MOST_PREPARED = 128  # steps of other shapes are prepared anew
_RECORDED_AT = 3  # uses of a shape before it is worth a graph


@dataclass(frozen=True, eq=False)
class StagePlan:
    """Everything about a stage that is known before its die is opened. survey: of the one with logits."""

    lowered: Lowered
    inputs: StepInputs
    vectors: Vectors
    survey: SurveyMemory | None = None

    @property
    def areas(self) -> tuple[Area, ...]:
        every = (*self.lowered.areas, self.inputs.area, self.vectors.area)
        if self.survey is not None:
            every = (*every, self.survey.area)
        return tuple(area for area in every if area.num_bytes)

    def num_bytes(self, *kinds: str) -> int:
        """Bytes of die memory of these kinds."""
        return sum(area.num_bytes for area in self.areas if area.kind in kinds)


@dataclass(eq=False)
class _Prepared:
    """The launches of one shape of a step, how often they were wanted, and their graph, if any."""

    launches: list[tuple[Launch, Grid, tuple[int | float, ...]]]
    num_uses: int = 0
    graph: Graph | None = None

    def launch(self) -> None:
        for launch, grid, arguments in self.launches:
            launch(grid, *arguments)


class Stage:
    """Loaded by `load`, then run step by step.

    use_graphs: replay shapes that come again, where the driver can.
    """

    def __init__(self, die: Die, plan: StagePlan, *, use_graphs: bool) -> None:
        self.die, self.plan, self._use_graphs = die, plan, use_graphs
        self._modules = Modules(die)
        self._addresses: dict[Area, int] = {}
        self._prepared: dict[Counts, _Prepared] = {}

    def load_kernels(self, report: Callable[[], None]) -> None:
        """Compile or fetch all kernels; `report` is called after each op."""
        with self.die.current():
            for op in self.plan.lowered.ops:
                for kernel in op.kernels:
                    self._modules.launch_of(kernel)
                report()
            for kernel in () if self.plan.survey is None else KERNELS:
                self._modules.launch_of(kernel)

    def load(self, report: Callable[[int], None]) -> None:
        """Take the memory and upload; `report` hears of bytes uploaded. Raises: OutOfMemory, DieFailed."""
        plan = self.plan
        with self.die.current():
            for area in plan.areas:
                region = self.die.allocate(area.num_bytes, area.what)
                self._addresses[area] = region.address
                if area.kind == "kv":  # what nobody wrote must still be numbers
                    self.die.fill_zero(region.address, area.num_bytes)
            with uploading(self.die, report) as upload:
                for rows in plan.lowered.weights:
                    rows.upload(self._addresses[rows.area], upload.send)
                for offset, values in plan.vectors.arrays():
                    upload.send(self._addresses[plan.vectors.area] + offset, values)

    def address(self, at: At) -> int:
        return self._addresses[at.area] + at.offset

    def surveyor(self) -> Surveyor:
        """Of this stage's logits."""
        assert self.plan.survey is not None
        return Surveyor(self.die, self._modules, self.plan.survey, self.address)

    def new_inputs(self, num_parts: int) -> npt.NDArray[np.int32]:
        """Page-locked places for the inputs of so many parts, (num_parts, num_values)."""
        inputs: npt.NDArray[np.int32] = self.die.pinned(
            (num_parts, self.plan.inputs.num_values), np.int32
        ).array
        inputs.fill(0)
        return inputs

    def send_inputs(self, place: npt.NDArray[np.int32], rows: StepBatch) -> None:
        """Copy what rows of a step bring, by way of a place that no copy under way comes from."""
        self.plan.inputs.fill(place, rows)
        self.die.copy_in(self._addresses[self.plan.inputs.area], place)

    def run(self, counts: Counts, before: Sequence[Mark]) -> None:
        """Put the launches of one step in the die's stream. before: what was recorded for steps so far."""
        prepared = self._prepared.get(counts)
        if prepared is None:
            prepared = self._prepare(counts, before)
        prepared.num_uses += 1
        if prepared.num_uses == _RECORDED_AT and self._use_graphs:
            prepared.graph = record(self.die, prepared.launch)
        if prepared.graph is None:
            prepared.launch()
        else:
            prepared.graph.launch()

    def _prepare(self, counts: Counts, before: Sequence[Mark]) -> _Prepared:
        if len(self._prepared) >= _MOST_PREPARED:
            self._forget(before)
        launches = []
        for op in self.plan.lowered.ops:
            num_rows = counts.num_rows if op.rows is Rows.STEP else counts.num_logit_rows
            if num_rows:
                call = op.call(num_rows, counts.num_runs)
                arguments = tuple(self._passed(argument) for argument in call.arguments)
                launches.append((self._modules.launch_of(call.kernel), call.grid, arguments))
        self._prepared[counts] = _Prepared(launches)
        return self._prepared[counts]

    def _forget(self, before: Sequence[Mark]) -> None:
        """Give the graphs back; none may be running."""
        self.die.synchronize(before)
        for prepared in self._prepared.values():
            if prepared.graph is not None:
                prepared.graph.close()
        self._prepared.clear()

    def _passed(self, argument: Argument) -> int | float:
        if argument is None:
            return 0
        return self.address(argument) if isinstance(argument, At) else argument
