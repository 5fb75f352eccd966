"""The rows of a weight in the order in which they are packed, fetched a piece at a time.

Owns which row of which tensor comes where, and that a piece is read whole before a kernel sees its
addresses: a model file that became shorter is an error of the read, never a fault inside a kernel.
Knows no format's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.specs.quants import row_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from kernels.specs.tensor import Part, Tensor


@dataclass(frozen=True, eq=False)
class WeightRows:
    """Row i is row index[i] of tensors[owner[i]]. Shapes: owner, index (num_rows,)."""

    tensors: tuple[Tensor, ...]
    owner: npt.NDArray[np.int64]
    index: npt.NDArray[np.int64]

    @classmethod
    def of(cls, parts: Iterable[Part]) -> WeightRows:
        """All rows of the parts, one part after another."""
        parts = tuple(parts)
        index = [
            np.arange(part.num_rows) if part.row_order is None else part.row_order for part in parts
        ]
        owner = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
        return cls(tuple(part.tensor for part in parts), owner, np.concatenate(index))

    def __len__(self) -> int:
        return len(self.index)

    def alternating(self, other: WeightRows, run_len: int) -> WeightRows:
        """Runs of rows of this and of the other in turns; both have as many whole runs."""

        def in_turns(
            mine: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64]
        ) -> npt.NDArray[np.int64]:
            halves = [half.reshape(-1, run_len) for half in (mine, theirs)]
            return np.stack(halves, axis=1).reshape(-1)

        return WeightRows(
            self.tensors + other.tensors,
            in_turns(self.owner, other.owner + len(self.tensors)),
            in_turns(self.index, other.index),
        )

    def fetch(
        self, begin: int, end: int
    ) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.uint8]]]:
        """Addresses of rows begin to end, and the memory they are in: keep it while they are used.

        Of each tensor the span from the first to the last of these rows is read at once. Rows that
        are out of order are so within a head, and a piece holds several heads or a part of one.
        Raises: whatever the tensors' storage raises.
        """
        owner, index = self.owner[begin:end], self.index[begin:end]
        addresses, memory = np.empty(len(index), np.int64), []
        for which in np.unique(owner):
            tensor, mine = self.tensors[which], owner == which
            row_len = row_bytes(tensor.quant, tensor.shape[1])
            first, last = int(index[mine].min()), int(index[mine].max())
            data = tensor.read(first * row_len, (last + 1) * row_len)
            memory.append(data)
            addresses[mine] = data.ctypes.data + row_len * (index[mine] - first)
        return addresses, memory
