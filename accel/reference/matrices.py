"""Weights as float32 matrices. Owns their expansion, once per weight; knows nothing about ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.dequantise import dequantise

if TYPE_CHECKING:
    import numpy.typing as npt

    from kernels.specs.tensor import Weight


def expand(weight: Weight) -> npt.NDArray[np.float32]:
    """The weight's parts, expanded and stacked. Shapes: -> (num_rows, k) f32."""
    parts = []
    for part in weight.parts:
        rows, k = part.tensor.shape
        matrix = dequantise(part.tensor.quant, part.tensor.data, rows, k)
        parts.append(matrix if part.row_order is None else matrix[part.row_order])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
