"""rms_norm, alone and with a residual. Owns the definitions; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def rms_norm(
    x: npt.NDArray[np.float32], gain: npt.NDArray[np.float32], eps: float
) -> npt.NDArray[np.float32]:
    """Each row over its root mean square, times a gain.

    Shapes: x (..., D), gain (D,) -> (..., D) f32. Units: eps is added to the mean of squares.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467.
    """
    mean = np.mean(x * x, axis=-1, keepdims=True)
    y: npt.NDArray[np.float32] = x / np.sqrt(mean + np.float32(eps)) * gain
    return y


def rms_norm_add(
    x: npt.NDArray[np.float32],
    residual: npt.NDArray[np.float32],
    gain: npt.NDArray[np.float32],
    eps: float,
) -> npt.NDArray[np.float32]:
    """rms_norm(x) + residual. Shapes: x, residual (N, D), gain (D,) -> (N, D) f32."""
    return rms_norm(x, gain, eps) + residual
