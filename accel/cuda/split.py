"""A program over several dies: where it is cut, and what crosses.

Owns the choice of the cuts; knows no kernel. A cut goes where one buffer alone is alive, which in a
transformer is between layers and between a layer's two halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from accel.errors import UnsupportedProgram

if TYPE_CHECKING:
    from kernels.specs.program import Buffer, Op, Program


@dataclass(frozen=True, eq=False)
class Stage:
    """Ops of one die; `received` comes from the stage before, `sent` goes to the next."""

    ops: tuple[Op, ...]
    received: Buffer | None
    sent: Buffer | None


def split(program: Program, num_stages: int) -> tuple[Stage, ...]:
    """Stages of about the same weight. Raises: UnsupportedProgram where there are too few places to cut."""
    crossing = _crossings(program)
    done, total = 0, sum(map(_weight_bytes, program.ops))
    before: list[int] = []  # bytes of weights before each op
    for op in program.ops:
        before.append(done)
        done += _weight_bytes(op)
    cuts: list[int] = []
    for stage in range(1, num_stages):
        goal = total * stage / num_stages
        left = [at for at in crossing if at > (cuts[-1] if cuts else 0)]
        if not left:
            raise UnsupportedProgram("cuda", f"a program this small on {num_stages} dies")
        cuts.append(min(left, key=lambda at: abs(before[at] - goal)))
    bounds = (0, *cuts, len(program.ops))
    return tuple(
        Stage(program.ops[start:end], crossing.get(start), crossing.get(end))
        for start, end in pairwise(bounds)
    )


def _crossings(program: Program) -> dict[int, Buffer]:
    """Before which ops exactly one buffer is alive, and which."""
    last_reader: dict[Buffer, int] = {program.logits: len(program.ops)}
    for at, op in enumerate(program.ops):
        for buffer in op.inputs:
            last_reader[buffer] = max(at, last_reader.get(buffer, 0))
    alive: set[Buffer] = set()
    found: dict[int, Buffer] = {}
    for at, op in enumerate(program.ops):
        alive = {buffer for buffer in alive if last_reader[buffer] >= at}
        if len(alive) == 1:
            found[at] = next(iter(alive))
        alive.add(op.output)
    return found


def _weight_bytes(op: Op) -> int:
    """Bytes read for every token: of the embedding only a row is."""
    if op.kind == "embed":
        return 0
    return sum(part.tensor.num_bytes for weight in op.weights for part in weight.parts)
