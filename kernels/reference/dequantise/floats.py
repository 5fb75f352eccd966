"""Float formats. Owns F32, F16 and BF16; all little-endian, one value a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def f32(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float32)


def f16(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def bf16(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The upper half of a float32."""
    upper = np.ascontiguousarray(blocks).view("<u2").astype(np.uint32)
    return (upper << np.uint32(16)).view(np.float32)
