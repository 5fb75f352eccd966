"""Formats of 256 values a block, with quantised scales inside: Q2_K to Q6_K.

Owns their layouts. n is the number of blocks; sub-blocks hold 16 or 32 values each. Products are
taken scale first, as ggml does, so that results agree bit for bit. Source: ggml's block definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.dequantise.bits import bit_list, half, nibbles

if TYPE_CHECKING:
    import numpy.typing as npt


def q2_k(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """16 bytes of (scale, min) nibbles, 64 bytes of 2-bit values, d, dmin; 16 sub-blocks."""
    n = len(blocks)
    scales, planes = blocks[:, 0:16], blocks[:, 16:80]
    d, dmin = half(blocks[:, 80:82]), half(blocks[:, 82:84])
    scale = (d * (scales & 15).astype(np.float32)).reshape(n, 16, 1)
    minimum = (dmin * (scales >> 4).astype(np.float32)).reshape(n, 16, 1)
    q = two_bits(planes).reshape(n, 16, 16).astype(np.float32)
    return (scale * q - minimum).reshape(n, 256)


def q3_k(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """32 bytes of high bits, 64 bytes of 2-bit values, 12 bytes of 6-bit scales, d; 16 sub-blocks."""
    n = len(blocks)
    high_bits, planes, packed = blocks[:, 0:32], blocks[:, 32:96], blocks[:, 96:108]
    low = nibbles(packed[:, 0:8])  # scales 0-7 in the low halves, 8-15 in the high ones
    high = np.concatenate([packed[:, 8:12] >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)
    scales = (low | high << np.uint8(4)).astype(np.float32) - np.float32(32)
    # Byte l of the high bits holds bit l of each of the eight runs of 32 values.
    high_bit = bit_list(high_bits).reshape(n, 32, 8).swapaxes(1, 2).reshape(n, 256)
    q = two_bits(planes).astype(np.float32) - np.float32(4) * (1 - high_bit.astype(np.float32))
    scale = (half(blocks[:, 108:110]) * scales).reshape(n, 16, 1)
    return (scale * q.reshape(n, 16, 16)).reshape(n, 256)


def q4_k(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """d, dmin, 12 bytes of 6-bit (scale, min), 128 bytes of nibbles; 8 sub-blocks."""
    q = nibbles(blocks[:, 16:144].reshape(-1, 4, 32))
    return _scaled_with_minimum(blocks, q)


def q5_k(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """As q4_k, with 32 bytes of high bits before the nibbles: bit j of byte l for sub-block j."""
    n = len(blocks)
    high = bit_list(blocks[:, 16:48]).reshape(n, 32, 8).swapaxes(1, 2)
    low = nibbles(blocks[:, 48:176].reshape(n, 4, 32)).reshape(n, 8, 32)
    return _scaled_with_minimum(blocks, low | high << np.uint8(4))


def q6_k(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """128 bytes of low halves, 64 bytes of 2-bit highs, 16 int8 scales, d; 16 sub-blocks."""
    n = len(blocks)
    low = nibbles(blocks[:, 0:128].reshape(n, 2, 64)).reshape(n, 256)
    high = two_bits(blocks[:, 128:192])
    q = (low | high << np.uint8(4)).astype(np.float32) - np.float32(32)
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    scale = (half(blocks[:, 208:210]) * scales).reshape(n, 16, 1)
    return (scale * q.reshape(n, 16, 16)).reshape(n, 256)


def two_bits(planes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(n, 64) bytes -> (n, 256) values 0..3: each 32 bytes hold four runs of 32 values."""
    n = len(planes)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(1, 1, 4, 1)
    return (planes.reshape(n, 2, 1, 32) >> shifts & np.uint8(3)).reshape(n, 256)


def _scaled_with_minimum(
    blocks: npt.NDArray[np.uint8], q: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    n = len(blocks)
    scales, minima = six_bit_pairs(blocks[:, 4:16])
    scale = (half(blocks[:, 0:2]) * scales.astype(np.float32)).reshape(n, 8, 1)
    minimum = (half(blocks[:, 2:4]) * minima.astype(np.float32)).reshape(n, 8, 1)
    return (scale * q.reshape(n, 8, 32).astype(np.float32) - minimum).reshape(n, 256)


def six_bit_pairs(
    packed: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """(n, 12) bytes -> scales and minima (n, 8).

    Bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3 in their low six bits; the last four bytes hold
    the low halves of scales and minima 4-7, whose top bits are those left in the first eight bytes.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1)
    return scales, minima
