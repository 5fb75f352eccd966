"""Tensors as a model file holds them, and weights as a program asks for them.

Owns the frozen values between the file reader and the backends; reads no file and computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


class Stored(Protocol):
    """Bytes that lie elsewhere, such as in a file, and are read when they are wanted."""

    nbytes: int

    def read(self, begin: int, end: int) -> npt.NDArray[np.uint8]:
        """A copy of bytes begin to end. Raises: whatever keeps them from being read."""
        ...


@dataclass(frozen=True, eq=False)
class Tensor:
    """A vector or matrix of a model file, still quantised.

    Shapes: `shape` is (rows, k) for a matrix and (k,) for a vector, k being the contiguous axis
    (GGML's ne[0]); `content` has rows * row_bytes bytes, rows one after another.
    """

    name: str
    quant: str
    shape: tuple[int, ...]
    content: npt.NDArray[np.uint8] | Stored

    @property
    def num_bytes(self) -> int:
        return self.content.nbytes

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """All bytes, read anew each time where they are stored elsewhere."""
        return self.read(0, self.num_bytes)

    def read(self, begin: int, end: int) -> npt.NDArray[np.uint8]:
        """Bytes begin to end. Raises: whatever the storage raises."""
        if isinstance(self.content, np.ndarray):
            return self.content[begin:end]
        return self.content.read(begin, end)


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one tensor inside a weight; `row_order` lists the rows to take, None for all in order."""

    tensor: Tensor
    row_order: npt.NDArray[np.int64] | None = None

    @property
    def num_rows(self) -> int:
        return self.tensor.shape[0] if self.row_order is None else len(self.row_order)


@dataclass(frozen=True, eq=False)
class Weight:
    """A matrix (num_rows, k): the rows of its parts, one part after another.

    Parts may differ in quant format. The same object used by two ops is stored once.
    """

    name: str
    parts: tuple[Part, ...]

    @property
    def num_rows(self) -> int:
        return sum(part.num_rows for part in self.parts)

    @property
    def k(self) -> int:
        return self.parts[0].tensor.shape[1]

    @property
    def quants(self) -> Sequence[str]:
        return tuple(part.tensor.quant for part in self.parts)


@dataclass(frozen=True, eq=False)
class Vector:
    """A small float32 vector (norm gains, biases), expanded at load."""

    name: str
    values: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RopeTable:
    """Rotary embedding of one head, half-split: pairs (i, i + num_pairs).

    angle(position, i) = position * inv_freq[i]; cos and sin are multiplied by `magnitude`
    (YaRN's attention factor, 1.0 otherwise). Dimensions from 2 * num_pairs on are left alone.
    Source: Su et al. 2021 (RoPE), Peng et al. 2023 (YaRN).
    """

    inv_freq: npt.NDArray[np.float64]
    magnitude: float = 1.0

    @property
    def num_pairs(self) -> int:
        return len(self.inv_freq)
