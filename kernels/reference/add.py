"""add. Owns the definition; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def add(x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """x + y. Shapes: (N, D), (N, D) -> (N, D) f32."""
    return x + y
