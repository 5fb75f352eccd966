"""The CUDA backend: compiles a fused program for one die, or for several by ranges of its layers.

Owns the order of compiling: everything is planned, and its bytes admitted, before a die is opened.
Importing it imports no pycuda.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.backend import PAGE_LEN
from accel.cuda.die import Die
from accel.cuda.executor import CudaExecutor, num_in_flight
from accel.cuda.lowering import check, lower
from accel.cuda.plan import KINDS
from accel.cuda.split import split
from accel.cuda.stage import Stage, StagePlan
from accel.cuda.step_inputs import StepInputs
from accel.cuda.survey import SurveyMemory
from accel.cuda.vectors import Vectors
from kernels.cuda import launches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from accel.backend import Limits, Progress
    from kernels.specs.program import Program


def _admit_anything(num_bytes: Mapping[int, int]) -> None:
    """For callers that keep no account of their dies."""


class CudaBackend:
    """Takes fused programs; KV types f16, f32, q8_0 and q4_0. Activations stay float32.

    dies: the driver's ordinals, in the order of the layers they take. `admit({ordinal: bytes})` is called
    with the exact need of each before any is opened, and may raise. use_graphs: let the driver replay
    shapes of steps that come again.
    """

    name = "cuda"

    def __init__(
        self,
        dies: Sequence[int],
        admit: Callable[[Mapping[int, int]], None] = _admit_anything,
        *,
        use_graphs: bool = True,
    ) -> None:
        assert dies
        self._dies, self._admit, self._use_graphs = tuple(dies), admit, use_graphs

    def compile(self, program: Program, limits: Limits, progress: Progress) -> CudaExecutor:
        """Raises: UnsupportedProgram, OutOfMemory, NoDriver, DieFailed, and what `admit` raises."""
        plans = plan_stages(program, limits, len(self._dies))
        needs = {
            ordinal: plan.num_bytes(*KINDS) for ordinal, plan in zip(self._dies, plans, strict=True)
        }
        self._admit(needs)
        stages: list[Stage] = []
        try:
            for ordinal, plan in zip(self._dies, plans, strict=True):
                stages.append(Stage(Die(ordinal), plan, use_graphs=self._use_graphs))
            _load(stages, progress)
            run_len = launches.run_len(limits.max_pages_per_slot * PAGE_LEN)
            return CudaExecutor(stages, limits, program.vocab_size, run_len)
        except BaseException:
            for stage in stages:
                stage.die.close()
            raise


def plan_stages(program: Program, limits: Limits, num_dies: int) -> tuple[StagePlan, ...]:
    """What each die would hold and run. Touches no die. Raises: UnsupportedProgram."""
    check(program, limits)
    plans = []
    for stage in split(program, num_dies):
        vectors = Vectors(stage.ops, limits.max_pages_per_slot * PAGE_LEN)
        inputs = StepInputs(limits)
        lowered = lower(stage, program, limits, inputs, vectors)
        survey = None
        if stage.sent is None:
            num_kept = num_in_flight(num_dies) if num_dies > 1 else 0
            survey = SurveyMemory(limits, program.vocab_size, lowered.output_stride, num_kept)
        plans.append(StagePlan(lowered, inputs, vectors, survey))
    return tuple(plans)


def _load(stages: Sequence[Stage], progress: Progress) -> None:
    num_ops = sum(len(stage.plan.lowered.ops) for stage in stages)
    num_bytes = sum(stage.plan.num_bytes("weights") for stage in stages)
    compiled, uploaded = 0, 0

    def count_op() -> None:
        nonlocal compiled
        compiled += 1
        progress("compiling kernels", compiled / num_ops)

    def count_bytes(more: int) -> None:
        nonlocal uploaded
        uploaded += more
        progress("uploading weights", min(1.0, uploaded / num_bytes))

    progress("compiling kernels", 0.0)
    for stage in stages:
        stage.load_kernels(count_op)
    progress("uploading weights", 0.0)
    for stage in stages:
        stage.load(count_bytes)
    progress("uploading weights", 1.0)
