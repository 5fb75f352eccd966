"""head_rms_norm. Owns the definition; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.reference.rms_norm import rms_norm

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def head_rms_norm(
    x: npt.NDArray[np.float32], gain: npt.NDArray[np.float32], head_dim: int, eps: float
) -> npt.NDArray[np.float32]:
    """rms_norm of every head by itself, all with the same gain.

    Shapes: x (N, H * head_dim), gain (head_dim,) -> (N, H * head_dim) f32.
    """
    return rms_norm(x.reshape(len(x), -1, head_dim), gain, eps).reshape(x.shape)
