"""What a fused program becomes: machine ops over areas of step memory.

Owns the frozen values between lowering, placement, meetings and the op table; computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernels.specs.program import Rows


@dataclass(frozen=True, eq=False)
class Area:
    """Rows of `row_bytes` each (a multiple of a cache line).

    In a narrow step every thread keeps its own copy of all rows of a `private` area: the row ops that
    make it are cheap, and nobody has to wait for anybody. `row_bytes` 0 marks something that is not
    step memory (KV pages) and only orders the ops that touch it.
    """

    name: str
    rows: Rows | int  # of a step, or so many in every step
    row_bytes: int
    private: bool = False


@dataclass(frozen=True, eq=False)
class Access:
    """Bytes [first, end) of every row of an area."""

    area: Area
    first: int
    end: int

    @classmethod
    def whole(cls, area: Area) -> Access:
        return cls(area, 0, max(area.row_bytes, 1))


@dataclass(frozen=True, eq=False)
class MachineOp:
    """One call of a compiled kernel by every thread.

    `columns` are columns of the op record; an access stands for the address of its first byte in row 0.
    """

    kernel: str
    rows: Rows
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    columns: Mapping[str, Column] = field(default_factory=dict)
    label: str = ""

    @property
    def areas(self) -> set[Area]:
        return {access.area for access in (*self.reads, *self.writes)}


Column = int | float | Access
