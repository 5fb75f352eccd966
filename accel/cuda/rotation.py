"""Rotary tables as the kernels read them: cosines and sines of every position. Owns that expansion alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from kernels.specs.tensor import RopeTable


def angles_of(table: RopeTable, num_positions: int) -> npt.NDArray[np.float32]:
    """Shapes: -> (num_positions, num_pairs, 2) f32: cosine and sine times the table's magnitude.

    Angles are taken in float64, as the reference takes them: float32 is off by 1e-3 at position 10,000.
    """
    angles = np.arange(num_positions, dtype=np.float64)[:, None] * table.inv_freq
    turns = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * table.magnitude
    return turns.astype(np.float32)
