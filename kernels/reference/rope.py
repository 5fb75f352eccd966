"""rope. Owns the definition; knows nothing about how the angles were scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from kernels.specs.tensor import RopeTable


def rope(
    x: npt.NDArray[np.float32],
    positions: npt.NDArray[np.int32],
    head_dim: int,
    table: RopeTable,
) -> npt.NDArray[np.float32]:
    """Every head's pairs (i, i + num_pairs) turned by position * inv_freq[i].

    Shapes: x (N, H * head_dim), positions (N,) -> (N, H * head_dim) f32. Angles are taken in float64.
    Source: Su et al. 2021, arXiv:2104.09864.
    """
    angles = positions.astype(np.float64)[:, None] * table.inv_freq
    cos = (np.cos(angles) * table.magnitude).astype(np.float32)[:, None, :]
    sin = (np.sin(angles) * table.magnitude).astype(np.float32)[:, None, :]
    y = x.reshape(len(x), -1, head_dim).copy()
    half = table.num_pairs
    first, second = y[..., :half].copy(), y[..., half : 2 * half].copy()
    y[..., :half] = first * cos - second * sin
    y[..., half : 2 * half] = first * sin + second * cos
    return y.reshape(x.shape)
