"""take_logit_rows, alone and with the last norm. Owns the definitions; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.reference.rms_norm import rms_norm

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def take_logit_rows(
    x: npt.NDArray[np.float32], logit_rows: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """The rows that want logits. Shapes: x (N, D), logit_rows (L,) -> (L, D) f32."""
    return x[logit_rows]


def take_rms_norm(
    x: npt.NDArray[np.float32],
    logit_rows: npt.NDArray[np.int32],
    gain: npt.NDArray[np.float32],
    eps: float,
) -> npt.NDArray[np.float32]:
    """rms_norm of the rows that want logits. Shapes: x (N, D), gain (D,) -> (L, D) f32."""
    return rms_norm(take_logit_rows(x, logit_rows), gain, eps)
