"""Rows of a weight by address: where repacking finds each of them, whatever the order.

Owns the order of rows over several tensors, padding to whole groups, and expanding formats that have
no kernels (a few rows at a time); knows no packed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernels.cpu import convert
from kernels.specs.quants import row_bytes

if TYPE_CHECKING:
    from kernels.specs.tensor import Part, Tensor


@dataclass(frozen=True, eq=False)
class RowTable:
    """Row i of the table is row `rows[i]` of `tensors[sources[i]]`.

    Shapes: sources, rows (num_rows,) int64. All tensors are of one packed format and k.
    """

    tensors: tuple[Tensor, ...]
    sources: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    @classmethod
    def stacked(cls, parts: tuple[Part, ...]) -> RowTable:
        orders = [
            np.arange(part.num_rows) if part.row_order is None else part.row_order for part in parts
        ]
        sources = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
        return cls(tuple(part.tensor for part in parts), sources, np.concatenate(orders))

    def interleaved(self, run: int) -> RowTable:
        """The first half of the rows and the second, `run` rows of each in turns."""
        order = np.arange(self.num_rows).reshape(2, -1, run).swapaxes(0, 1).reshape(-1)
        return RowTable(self.tensors, self.sources[order], self.rows[order])

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    @property
    def k(self) -> int:
        return self.tensors[0].shape[1]

    @contextmanager
    def file_rows(self, first: int, end: int) -> Iterator[npt.NDArray[np.int64]]:
        """Addresses of rows [first, end) in their (converted) file format; rows past the last are zeros.

        The addresses hold within the `with` block.
        """
        sources, rows = self.sources[first:end], self.rows[first:end]
        if self.tensors[0].quant in convert.CONVERTED:
            blocks = self._converted(sources, rows)
            row_len, base = blocks[0].nbytes, np.full(len(rows), blocks.ctypes.data)
            rows = np.arange(len(rows))
        else:
            row_len = row_bytes(self.tensors[0].quant, self.k)
            base = np.array([tensor.data.ctypes.data for tensor in self.tensors])[sources]
        zeros = np.zeros(row_len, np.uint8)
        addresses = np.full(end - first, zeros.ctypes.data, np.int64)
        addresses[: len(rows)] = base + row_len * rows
        yield addresses

    def _converted(
        self, sources: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.void]:
        parts = []
        for source in range(len(self.tensors)):
            tensor, mine = self.tensors[source], sources == source
            if mine.any():
                data = tensor.data.reshape(tensor.shape[0], -1)[rows[mine]]
                parts.append((mine, convert.to_q8_f(tensor.quant, data, len(data), self.k)))
        blocks = np.empty((len(rows), self.k // 32), parts[0][1].dtype)
        for mine, part in parts:
            blocks[mine] = part
        return blocks
