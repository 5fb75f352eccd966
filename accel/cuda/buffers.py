"""Step buffers that are never alive together share memory.

Owns lifetimes and who takes whose place; knows nothing about kernels. Buffers share whole places, of
their own row width and kind of rows, which programs have few of.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from accel.cuda.plan import Area, At, aligned
from kernels.specs.program import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel.backend import Limits
    from kernels.specs.program import Buffer, Op


def stride_of(buffer: Buffer) -> int:
    """Floats from a row to the next: rows start at multiples of 16 bytes."""
    return -(-buffer.width // 4) * 4


def buffer_bytes(buffer: Buffer, limits: Limits) -> int:
    rows = limits.max_rows if buffer.rows is Rows.STEP else limits.max_logit_rows
    return aligned(4 * rows * stride_of(buffer))


def place_buffers(
    ops: Sequence[Op], kept: Sequence[Buffer], received: Buffer | None, limits: Limits
) -> Mapping[Buffer, At]:
    """Where every buffer of a stage lies. `kept` are read when all ops have run."""
    last_use: dict[Buffer, int] = {}
    for at, op in enumerate(ops):
        for buffer in (op.output, *op.inputs):
            last_use[buffer] = at
    last_use |= dict.fromkeys(kept, len(ops))
    free: dict[tuple[int, Rows], list[int]] = defaultdict(list)
    offsets: dict[Buffer, int] = {}
    end = 0

    def take(buffer: Buffer) -> None:
        nonlocal end
        places = free[stride_of(buffer), buffer.rows]
        if places:
            offsets[buffer] = places.pop()
        else:
            offsets[buffer], end = end, end + buffer_bytes(buffer, limits)

    if received is not None:
        take(received)
    for at, op in enumerate(ops):
        take(op.output)
        for buffer in {op.output, *op.inputs}:
            if last_use[buffer] == at:
                free[stride_of(buffer), buffer.rows].append(offsets[buffer])
    area = Area("buffers", "step buffers", end)
    return {buffer: At(area, offset) for buffer, offset in offsets.items()}
