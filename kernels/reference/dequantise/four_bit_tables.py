"""Formats whose 4-bit values index a table of uneven steps: IQ4_NL, IQ4_XS.

Owns the table and both layouts. Source: ggml's block definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.dequantise.bits import half, nibbles

if TYPE_CHECKING:
    import numpy.typing as npt

STEPS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float32
)


def iq4_nl(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """d and 16 bytes of nibbles; 32 values."""
    y: npt.NDArray[np.float32] = half(blocks[:, 0:2]) * STEPS[nibbles(blocks[:, 2:18])]
    return y


def iq4_xs(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """d, 8 scales of 6 bits (2 bytes of highs, 4 bytes of lows), 128 bytes of nibbles; 256 values."""
    n = len(blocks)
    highs = np.ascontiguousarray(blocks[:, 2:4]).view("<u2").astype(np.int32)
    high = highs >> np.arange(0, 16, 2) & 3
    lows = blocks[:, 4:8].astype(np.int32)
    low = np.stack([lows & 15, lows >> 4], axis=-1).reshape(n, 8)
    scales = (low | high << 4) - 32
    scale = (half(blocks[:, 0:2]) * scales.astype(np.float32)).reshape(n, 8, 1)
    q = STEPS[nibbles(blocks[:, 8:136].reshape(n, 8, 16))]
    y: npt.NDArray[np.float32] = (scale * q).reshape(n, 256)
    return y
