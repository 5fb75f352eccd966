"""Weights on a die: which rows lie together, in which planes, and how they get there.

Owns the grouping of a weight's parts and the upload of their planes; knows no op. Rows are packed a few
at a time, so that a load never holds a second copy of a weight on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from accel.cuda.plan import Area, At, aligned
from accel.errors import UnsupportedProgram
from kernels.cuda.formats import BLOCK_LEN, PLANES, PlaneFormat, format_of
from kernels.cuda.pack import pack
from kernels.specs.quants import row_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from kernels.specs.tensor import Part, Weight

    Bytes = npt.NDArray[np.uint8]

_CHUNK_BYTES = 256 << 10  # what is packed at once stays in a core's cache


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows of one format in one area, plane after plane.

    first_column: of the op's output, where their results go. parts: the rows in order, or, of an
    `alternating` pair, gate's and up's in turns.
    """

    fmt: PlaneFormat
    quant: str
    num_rows: int
    k: int
    first_column: int
    parts: tuple[Part, ...]
    alternating: bool
    area: Area

    @property
    def planes(self) -> tuple[At | None, ...]:
        """Where each plane starts; None for one that the format has not."""
        starts, at = [], 0
        for num_bytes in self._plane_bytes:
            starts.append(At(self.area, at) if num_bytes else None)
            at += aligned(num_bytes)
        return tuple(starts)

    @property
    def _plane_bytes(self) -> tuple[int, ...]:
        return self.fmt.plane_bytes(self.num_rows * self.k // BLOCK_LEN)

    def upload(self, address: int, send: Callable[[int, Bytes], None]) -> None:
        """Pack and `send(address, bytes)` everything."""
        for first_row, rows in self._raw_chunks():
            first_block = first_row * self.k // BLOCK_LEN
            offsets = self.fmt.plane_bytes(first_block)
            for plane, start, offset in zip(
                pack(self.quant, rows), self.planes, offsets, strict=True
            ):
                if plane is not None and start is not None:
                    send(address + start.offset + offset, plane)

    def _raw_chunks(self) -> Iterator[tuple[int, Bytes]]:
        """Rows as the file stores them, a few at a time, with the number of the first."""
        step = max(1, _CHUNK_BYTES // row_bytes(self.quant, self.k))
        if self.alternating:
            gate, up = self.parts
            for at in range(0, gate.num_rows, step):
                pairs = np.stack([_read(part, at, at + step) for part in (gate, up)], axis=1)
                yield 2 * at, pairs.reshape(-1, pairs.shape[-1])
            return
        first = 0
        for part in self.parts:
            for at in range(0, part.num_rows, step):
                yield first + at, _read(part, at, at + step)
            first += part.num_rows


def _read(part: Part, begin: int, end: int) -> Bytes:
    """Rows begin to end (or to the last) of a part. Shapes: -> (rows, row_bytes).

    Rows that are out of order are so within a head; what lies between the first and the last is read.
    """
    tensor, end = part.tensor, min(end, part.num_rows)
    num_bytes = row_bytes(tensor.quant, tensor.shape[1])
    if part.row_order is None:
        return tensor.read(begin * num_bytes, end * num_bytes).reshape(-1, num_bytes)
    order = part.row_order[begin:end]
    first, last = int(order.min()), int(order.max())
    rows = tensor.read(first * num_bytes, (last + 1) * num_bytes).reshape(-1, num_bytes)
    chosen: Bytes = rows[order - first]
    return chosen


def packed_rows(weight: Weight) -> tuple[PackedRows, ...]:
    """A weight's rows, neighbours of one format together. Raises: UnsupportedProgram."""
    packed: list[PackedRows] = []
    column = 0
    for quant, group in groupby(weight.parts, key=lambda part: part.tensor.quant):
        parts = tuple(group)
        rows = _rows(weight.name, quant, weight.k, parts, column, alternating=False)
        packed.append(rows)
        column += rows.num_rows
    return tuple(packed)


def alternating_rows(gate: Weight, up: Weight) -> PackedRows | None:
    """Gate and up in one area, row by row in turns; None where they are too unlike for that."""
    parts = (*gate.parts, *up.parts)
    if len(parts) != 2 or len({part.tensor.quant for part in parts}) > 1:
        return None
    if gate.num_rows != up.num_rows or any(part.row_order is not None for part in parts):
        return None
    name = f"{gate.name}+{up.name}"
    return _rows(name, parts[0].tensor.quant, gate.k, parts, 0, alternating=True)


def _rows(
    name: str, quant: str, k: int, parts: tuple[Part, ...], first_column: int, *, alternating: bool
) -> PackedRows:
    fmt = format_of(quant)
    if fmt is None:
        raise UnsupportedProgram("cuda", f"{name} stored as {quant}")
    if k % BLOCK_LEN:
        raise UnsupportedProgram("cuda", f"{name} with rows of {k}, no multiple of {BLOCK_LEN}")
    num_rows = sum(part.num_rows for part in parts)
    sizes = fmt.plane_bytes(num_rows * k // BLOCK_LEN)
    assert len(sizes) == len(PLANES)
    area = Area("weights", name, sum(aligned(num_bytes) for num_bytes in sizes))
    return PackedRows(fmt, quant, num_rows, k, first_column, parts, alternating, area)
