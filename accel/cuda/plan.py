"""What a program becomes before any die is touched: areas of die memory, and calls that name them.

Owns the frozen values between lowering and the executor; computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.cuda.catalogue import Kernel
    from kernels.cuda.launches import Grid
    from kernels.specs.program import Rows


@dataclass(frozen=True, eq=False)
class Area:
    """Bytes that are allocated together, a multiple of ALIGN; `kind` is one of KINDS."""

    kind: str
    what: str
    num_bytes: int


KINDS = ("weights", "kv", "buffers")
ALIGN = 512  # what the driver rounds allocations up to; planes and buffers start at multiples of it


def aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGN) * ALIGN


@dataclass(frozen=True, eq=False)
class At:
    """An address: so many bytes into an area."""

    area: Area
    offset: int = 0

    def plus(self, num_bytes: int) -> At:
        return At(self.area, self.offset + num_bytes)


Argument = int | float | At | None  # None is a null pointer


@dataclass(frozen=True)
class Counts:
    """What a step's launches depend on: rows of each kind, and runs of positions of its longest sequence."""

    num_rows: int
    num_logit_rows: int
    num_runs: int


@dataclass(frozen=True, eq=False)
class Call:
    """One launch of a kernel for a known number of rows."""

    kernel: Kernel
    grid: Grid
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, eq=False)
class PlannedOp:
    """A launch of every step that has rows of its kind; `call` is asked once for every (rows, runs)."""

    label: str
    rows: Rows
    call: Callable[[int, int], Call]  # (num_rows > 0, num_runs)
    kernels: tuple[Kernel, ...]  # all that `call` may choose
