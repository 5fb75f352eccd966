"""Float matrices of a model file as 8-bit ones, computed piece by piece as they are read.

Owns the Q8_0 rounding and which tensors it is for; keeps nothing. Vectors and matrices that are
quantised already stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.dequantise import dequantise
from kernels.specs.quants import QUANTS
from kernels.specs.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

FLOATS = ("F32", "F16", "BF16")
_BLOCK_LEN = QUANTS["Q8_0"].block_len
_VALUES_AT_ONCE = 1 << 22  # of a whole matrix that is read at once: 16 MiB of float32


def quantise_floats(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, float matrices whose rows are whole blocks in Q8_0."""
    return {name: _quantised(tensor) for name, tensor in tensors.items()}


def _quantised(tensor: Tensor) -> Tensor:
    is_matrix = len(tensor.shape) == 2 and tensor.shape[1] % _BLOCK_LEN == 0
    if not is_matrix or tensor.quant not in FLOATS:
        return tensor
    return Tensor(tensor.name, "Q8_0", tensor.shape, _EightBit(tensor))


class _EightBit:
    """The Q8_0 bytes of a float matrix; reading some computes the rows they lie in."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        num_rows, k = tensor.shape
        self._row_bytes = k // _BLOCK_LEN * QUANTS["Q8_0"].block_bytes
        self.nbytes = num_rows * self._row_bytes

    def read(self, begin: int, end: int) -> npt.NDArray[np.uint8]:
        first, last = begin // self._row_bytes, -(-end // self._row_bytes)
        step = max(1, _VALUES_AT_ONCE // self._tensor.shape[1])
        rows = [self._rows(row, min(row + step, last)) for row in range(first, last, step)]
        data = np.concatenate(rows) if rows else np.zeros(0, np.uint8)
        return data[begin - first * self._row_bytes : end - first * self._row_bytes]

    def _rows(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        tensor, k = self._tensor, self._tensor.shape[1]
        row_bytes = tensor.num_bytes // tensor.shape[0]
        stored = tensor.read(first * row_bytes, last * row_bytes)
        return q8_0(dequantise(tensor.quant, stored, last - first, k))


def q8_0(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Blocks of 32 values as a float16 scale and 32 signed bytes, one block after another.

    Shapes: values (rows, k) f32, k a multiple of 32 -> (rows * k / 32 * 34,) uint8. The scale is the
    largest magnitude over 127; values are rounded to the nearest step of it, halves away from zero.
    Source: GGML's block format Q8_0 and its reference rounding.
    """
    blocks = values.reshape(-1, _BLOCK_LEN)
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    steps = blocks * inverse[:, None]
    rounded = np.trunc(steps + np.copysign(np.float32(0.5), steps)).astype(np.int8)
    packed = np.empty((len(blocks), QUANTS["Q8_0"].block_bytes), np.uint8)
    packed[:, :2] = scale.astype(np.float16)[:, None].view(np.uint8)
    packed[:, 2:] = rounded.view(np.uint8)
    return packed.reshape(-1)
