"""embed. Owns the definition; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def embed(
    table: npt.NDArray[np.float32], tokens: npt.NDArray[np.int32], scale: float
) -> npt.NDArray[np.float32]:
    """Each token's row of the table, scaled.

    Shapes: table (V, D) f32, tokens (N,) -> (N, D) f32.
    """
    return table[tokens] * np.float32(scale)
