"""matmul, alone and with its fused endings. Owns the definitions; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.gated import gated

if TYPE_CHECKING:
    import numpy.typing as npt


def matmul(x: npt.NDArray[np.float32], weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """y = W x, row by row.

    Shapes: x (N, K), weight (R, K) -> (N, R) f32. One dot product a value, so that the order of
    summation depends neither on how many rows there are nor on threads.
    """
    y = np.empty((len(x), len(weight)), dtype=np.float32)
    for row in range(len(x)):
        np.vecdot(weight, x[row], out=y[row])
    return y


def matmul_add(
    x: npt.NDArray[np.float32],
    residual: npt.NDArray[np.float32],
    weight: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """y = W x + residual. Shapes: x (N, K), residual (N, R), weight (R, K) -> (N, R) f32."""
    return matmul(x, weight) + residual


def matmul_gated(
    x: npt.NDArray[np.float32],
    gate: npt.NDArray[np.float32],
    up: npt.NDArray[np.float32],
    activation: str,
) -> npt.NDArray[np.float32]:
    """y = act(W0 x) * (W1 x). Shapes: x (N, K), gate and up (R, K) -> (N, R) f32."""
    return gated(matmul(x, gate), matmul(x, up), activation)
