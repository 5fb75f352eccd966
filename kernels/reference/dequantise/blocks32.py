"""Formats of 32 values a block: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Owns y = d * (q - offset) and y = d * q + m, d and m being half floats at the block's start. Source:
ggml's block definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.dequantise.bits import bit_list, half, nibbles

if TYPE_CHECKING:
    import numpy.typing as npt


def q4_0(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    q = nibbles(blocks[:, 2:18]).astype(np.float32) - np.float32(8)
    return half(blocks[:, 0:2]) * q


def q4_1(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    q = nibbles(blocks[:, 4:20]).astype(np.float32)
    return half(blocks[:, 0:2]) * q + half(blocks[:, 2:4])


def q5_0(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    q = nibbles(blocks[:, 6:22]) | bit_list(blocks[:, 2:6]) << 4
    return half(blocks[:, 0:2]) * (q.astype(np.float32) - np.float32(16))


def q5_1(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    q = nibbles(blocks[:, 8:24]) | bit_list(blocks[:, 4:8]) << 4
    return half(blocks[:, 0:2]) * q.astype(np.float32) + half(blocks[:, 2:4])


def q8_0(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    q = np.ascontiguousarray(blocks[:, 2:34]).view(np.int8).astype(np.float32)
    return half(blocks[:, 0:2]) * q
