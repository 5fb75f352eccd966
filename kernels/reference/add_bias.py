"""add_bias. Owns the definition; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def add_bias(x: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The same bias for every row. Shapes: x (N, D), bias (D,) -> (N, D) f32."""
    return x + bias
