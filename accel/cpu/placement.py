"""Where areas lie in step memory: areas that are never alive together may share bytes.

Owns lifetimes and offsets; knows nothing about kernels. Private areas share only with areas of the
same shape, so that in a narrow step a thread's copy never covers another thread's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.cpu.memory import LINE_BYTES, round_up
from kernels.specs.program import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel.cpu.records import Area, MachineOp


@dataclass(frozen=True)
class Span:
    """Bytes [start, end) of step memory."""

    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Placement:
    spans: Mapping[Area, Span]
    num_bytes: int


@dataclass(frozen=True)
class Capacity:
    """How many rows an area must hold; `narrow_copies` rows for one private copy a thread."""

    step_rows: int
    logit_rows: int
    narrow_copies: int

    def num_bytes(self, area: Area) -> int:
        if isinstance(area.rows, int):
            rows = area.rows
        else:
            rows = self.step_rows if area.rows is Rows.STEP else self.logit_rows
        if area.private:
            rows = max(rows, self.narrow_copies)
        return round_up(rows * area.row_bytes, LINE_BYTES)


def lifetimes(ops: Sequence[MachineOp]) -> dict[Area, tuple[int, int]]:
    """Index of the first and the last op that touches each area; areas without memory are left out."""
    spans: dict[Area, tuple[int, int]] = {}
    for i, op in enumerate(ops):
        for area in op.areas:
            if area.row_bytes:
                spans[area] = (spans.get(area, (i, i))[0], i)
    return spans


def place(ops: Sequence[MachineOp], capacity: Capacity) -> Placement:
    """Offsets for all areas: largest first, each at the lowest offset free during its life."""
    lives = lifetimes(ops)
    spans: dict[Area, Span] = {}
    base = 0
    pools: dict[tuple[int, Rows | int] | None, list[Area]] = {}
    for area in lives:
        pools.setdefault((area.row_bytes, area.rows) if area.private else None, []).append(area)
    for areas in pools.values():
        base = _place_pool(areas, lives, capacity, base, spans)
    return Placement(spans, base)


def _place_pool(
    areas: list[Area],
    lives: Mapping[Area, tuple[int, int]],
    capacity: Capacity,
    base: int,
    spans: dict[Area, Span],
) -> int:
    """Place the areas of one pool from `base` on; returns the end of the pool."""
    placed: list[Area] = []
    end = base
    for area in sorted(areas, key=lambda a: (-capacity.num_bytes(a), lives[a])):
        first, last = lives[area]
        busy = sorted(
            (
                spans[other]
                for other in placed
                if lives[other][0] <= last and first <= lives[other][1]
            ),
            key=lambda span: span.start,
        )
        start, size = base, capacity.num_bytes(area)
        for span in busy:
            if start + size <= span.start:
                break
            start = max(start, span.end)
        spans[area] = Span(start, start + size)
        placed.append(area)
        end = max(end, start + size)
    return end
