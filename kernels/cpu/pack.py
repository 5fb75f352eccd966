"""Weights of a program -> packed weights in memory, ready for the kernels.

Owns the way from `kernels.specs.tensor.Weight` to groups of 16 interleaved rows: which parts go
together, in which format, in how many tasks. Knows no format's bytes and no backend. Each task fetches
its own rows, so that never more than a few MiB of the file are in memory beside what is packed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

from kernels.cpu.errors import UnsupportedWeight
from kernels.cpu.formats import ENTRIES, FORMATS
from kernels.cpu.repack import SIGNATURE
from kernels.cpu.simd import OPTIONS
from kernels.cpu.weight_format import LANES
from kernels.cpu.weight_rows import WeightRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from kernels.cpu.weight_format import Format
    from kernels.specs.tensor import Part, Weight

TASK_BYTES = 1 << 20  # of packed weights

_compiled: dict[str, Callable[[npt.NDArray[np.int64], int, int, int], None]] = {}


class Memory(Protocol):
    def take(self, num_bytes: int) -> npt.NDArray[np.uint8]:
        """num_bytes that start on a cache line."""
        ...


@dataclass(frozen=True, eq=False)
class PackedPart:
    """Neighbouring output columns of a weight, in one format.

    `data` holds num_groups groups of 16 rows; rows past num_rows are zeros. The part's outputs start
    at `first_column`; num_columns = 16 * num_groups are written.
    """

    format: Format
    data: npt.NDArray[np.uint8]
    num_rows: int
    first_column: int
    k: int

    @property
    def num_groups(self) -> int:
        return -(-self.num_rows // LANES)

    @property
    def num_columns(self) -> int:
        return self.num_groups * LANES

    @property
    def matmul_kernel(self) -> str:
        return f"matmul_{self.format.name.lower()}"

    @property
    def embed_kernel(self) -> str:
        return f"embed_{self.format.name.lower()}"

    def columns(self) -> dict[str, int]:
        """Op-record columns that say where and how big this is."""
        return {
            "W": self.data.ctypes.data,
            "K": self.k,
            "GROUPS": self.num_groups,
            "GROUP_BYTES": self.format.group_bytes(self.k),
        }


def can_gate(gate: Weight, up: Weight) -> bool:
    """Whether pack_gated takes the two: one format in common, whole groups of rows."""
    quants = {*gate.quants, *up.quants}
    return len(quants) == 1 and gate.num_rows == up.num_rows and gate.num_rows % LANES == 0


def compile_repacking(weights: Iterable[Weight]) -> None:
    """Compile (or load) what packing the weights will need. Raises: UnsupportedWeight."""
    for weight in weights:
        for part in weight.parts:
            _repack_function(_format_of(part, weight.name))


def compile_format(fmt: Format) -> None:
    """Compile (or load) what packs weights of this format."""
    _repack_function(fmt)


def repack_functions() -> tuple[Any, ...]:
    """All that this process has compiled or loaded: numba's dispatchers."""
    return tuple(_compiled.values())


def pack_weight(weight: Weight, memory: Memory, pool: Executor) -> tuple[PackedPart, ...]:
    """One packed part for every run of the weight's parts that share a format, in column order.

    Raises: UnsupportedWeight.
    """
    packed: list[PackedPart] = []
    column = 0
    for fmt, run in groupby(weight.parts, lambda part: _format_of(part, weight.name)):
        if column % LANES:
            reason = f"another format begins at row {column}, which is no multiple of {LANES}"
            raise UnsupportedWeight(weight.name, reason)
        rows = WeightRows.of(run)
        packed.append(_pack(fmt, rows, column, weight.k, memory, pool))
        column += len(rows)
    return tuple(packed)


def pack_gated(gate: Weight, up: Weight, memory: Memory, pool: Executor) -> PackedPart:
    """Groups of gate and up in turns, as a gated matmul reads them; see can_gate.

    Raises: UnsupportedWeight.
    """
    if not can_gate(gate, up):
        raise UnsupportedWeight(gate.name, f"it shares no format and size with {up.name}")
    rows = WeightRows.of(gate.parts).alternating(WeightRows.of(up.parts), LANES)
    return _pack(_format_of(gate.parts[0], gate.name), rows, 0, gate.k, memory, pool)


def _format_of(part: Part, weight_name: str) -> Format:
    quant, k = part.tensor.quant, part.tensor.shape[1]
    if quant not in FORMATS:
        raise UnsupportedWeight(weight_name, f"there is no kernel for the format {quant}")
    fmt = FORMATS[quant]
    if k % fmt.block_len:
        reason = f"its rows have {k} values where {quant} needs a multiple of {fmt.block_len}"
        raise UnsupportedWeight(weight_name, reason)
    return fmt


def _pack(
    fmt: Format,
    rows: WeightRows,
    column: int,
    k: int,
    memory: Memory,
    pool: Executor,
) -> PackedPart:
    num_rows, num_groups = len(rows), -(-len(rows) // LANES)
    group_bytes, blocks = fmt.group_bytes(k), k // fmt.block_len
    zero_row = np.zeros(blocks * fmt.file_bytes, np.uint8)
    data = memory.take(num_groups * group_bytes)
    repack, base = _repack_function(fmt), data.ctypes.data
    step = max(1, TASK_BYTES // group_bytes)

    def task(first: int) -> None:
        end = min(first + step, num_groups)
        addresses, held = rows.fetch(first * LANES, end * LANES)
        padding = np.full((end - first) * LANES - len(addresses), zero_row.ctypes.data)
        addresses = np.concatenate([addresses, padding])
        repack(addresses, base + first * group_bytes, blocks, end - first)
        del held  # not before

    for _ in pool.map(task, range(0, num_groups, step)):
        pass  # raises what the task raised
    return PackedPart(fmt, data, num_rows, column, k)


def _repack_function(fmt: Format) -> Callable[[npt.NDArray[np.int64], int, int, int], None]:
    if fmt.name not in _compiled:
        entry = ENTRIES[f"repack_{fmt.name.lower()}"]
        _compiled[fmt.name] = njit(SIGNATURE, **OPTIONS, cache=True)(entry)
    return _compiled[fmt.name]
