"""Where the compute threads of a step must meet: derived from what every op reads and writes.

Owns the hazards between ops; knows nothing about kernels. Ops run in order on every thread, each
doing its share. A thread may run ahead into the next op unless that op touches bytes that another
thread may still have to write, or overwrites bytes that another thread may still have to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.specs.program import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel.cpu.placement import Placement
    from accel.cpu.records import Access, MachineOp


@dataclass(frozen=True)
class Mode:
    """How many rows a step has, as far as meetings care. In a narrow step private areas are per thread."""

    narrow: bool
    narrow_logits: bool
    any_logits: bool

    def is_narrow(self, rows: Rows | int) -> bool:
        return self.narrow_logits if rows is Rows.LOGITS else self.narrow

    def runs(self, op: MachineOp) -> bool:
        return self.any_logits or op.rows is Rows.STEP


# The machine computes its mode as 3 * (step is wide) + (0: no logits, 1: narrow logits, 2: wide logits).
MODES = tuple(
    Mode(narrow, narrow_logits, any_logits)
    for narrow in (True, False)
    for any_logits, narrow_logits in ((False, True), (True, True), (True, False))
)


def meeting_bits(ops: Sequence[MachineOp], placement: Placement) -> list[int]:
    """Per op: bit m is set where all threads must be done with it before any goes on, in mode MODES[m]."""
    bits = [0] * len(ops)
    for m, mode in enumerate(MODES):
        for i in _meetings(ops, placement, mode):
            bits[i] |= 1 << m
    return bits


def _meetings(ops: Sequence[MachineOp], placement: Placement, mode: Mode) -> list[int]:
    """Indices of the ops after which threads meet: as late as possible, just before the first hazard."""
    meet: list[int] = []
    reads: list[Access] = []
    writes: list[Access] = []
    previous = -1
    for i, op in enumerate(ops):
        if not mode.runs(op):
            continue
        if _clash(op.reads, writes, placement, mode) or _clash(
            op.writes, [*reads, *writes], placement, mode
        ):
            meet.append(previous)
            reads, writes = [], []
        reads.extend(op.reads)
        writes.extend(op.writes)
        previous = i
    return meet


def _clash(
    some: Sequence[Access], others: Sequence[Access], placement: Placement, mode: Mode
) -> bool:
    return any(_touch(a, b, placement, mode) for a in some for b in others)


def _touch(a: Access, b: Access, placement: Placement, mode: Mode) -> bool:
    """May two threads, one in each access, touch the same bytes?"""
    if any(access.area.private and mode.is_narrow(access.area.rows) for access in (a, b)):
        return False  # private areas share memory only with areas of the same shape
    if a.area is b.area:
        return a.first < b.end and b.first < a.end
    if a.area.row_bytes == 0 or b.area.row_bytes == 0:
        return False
    return placement.spans[a.area].overlaps(placement.spans[b.area])
