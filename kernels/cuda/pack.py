"""Quant blocks of a file -> the planes of a die's format.

Owns the repacking, in NumPy and block by block; knows nothing about dies. Values are the file's own,
exactly: bits only move, and converted formats hold what the file's value is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.dequantise.bits import bit_list, nibbles
from kernels.reference.dequantise.four_bit_tables import STEPS
from kernels.reference.dequantise.superblocks import six_bit_pairs, two_bits
from kernels.specs.quants import QUANTS

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Words = npt.NDArray[np.uint32]
    Plane = Bytes | Words
    # quants, highs, scales, supers; None where the format has no such plane
    Planes = tuple[Plane, Plane | None, Plane | None, Plane | None]


def pack(quant: str, rows: Bytes) -> tuple[Bytes, Bytes | None, Bytes | None, Bytes | None]:
    """Planes of rows, each one row after another.

    Shapes: rows (num_rows, row_bytes) uint8; every plane is flat. Raises: KeyError for a format
    that nothing packs.
    """
    blocks = np.ascontiguousarray(rows).reshape(-1, QUANTS[quant].block_bytes)
    quants, *others = _PACKERS[quant](blocks)
    highs, scales, supers = (None if plane is None else _flat(plane) for plane in others)
    return _flat(quants), highs, scales, supers


def _flat(plane: Plane) -> Bytes:
    return np.ascontiguousarray(plane).view(np.uint8).reshape(-1)


# ---- bits, as kernels/cuda/formats/parts.cuh reads them, four bytes of a word at a time ------------------


def join_nibbles(field: Bytes) -> tuple[Words, Words]:
    """Runs of 32 bytes -> those of their low nibbles, and those of their high ones.

    Shapes: (n, 32 m) bytes -> two (n, m, 4) words; byte i holds value i and, above it, value i + 16.
    """
    halves = _words(field).reshape(len(field), -1, 2, 4)
    first, second = halves[:, :, 0], halves[:, :, 1]
    low = first & _LOW | (second & _LOW) << np.uint32(4)
    return low, first >> np.uint32(4) & _LOW | second & _HIGH


def join_pairs(field: Bytes) -> Words:
    """Runs of 32 bytes, each with two bits of four blocks -> the two bits of each block together.

    Shapes: (n, 32 m) bytes -> (n, m, 4, 2) words; value 16 w + 4 j + i in bits 2 j of byte i of word w.
    """
    words = _words(field).reshape(len(field), -1, 1, 2, 4)
    shifts = np.arange(0, 8, 2, dtype=np.uint32)[:, None]
    joined: Words = np.zeros((*words.shape[:2], 4, 2), np.uint32)
    for j in range(4):
        joined |= (words[..., j] >> shifts & np.uint32(0x03030303)) << np.uint32(2 * j)
    return joined


def join_bits(field: Bytes) -> Words:
    """32 bytes, each with a bit of eight blocks -> the bits of each block together.

    Shapes: (n, 32) bytes -> (n, 8) words; value 4 j + i in bit j of byte i.
    """
    words, shifts = _words(field), np.arange(8, dtype=np.uint32)
    joined: Words = np.zeros((len(field), 8), np.uint32)
    for j in range(8):
        joined |= (words[:, j, None] >> shifts & np.uint32(0x01010101)) << np.uint32(j)
    return joined


def spread_bits(field: Bytes) -> Words:
    """One bit of 32 values in a row -> value 4 j + i in bit j of byte i. Shapes: (n, 4) bytes -> (n, 1)."""
    bits = _words(field)
    spread: Words = np.zeros_like(bits)
    for j in range(8):
        four = bits >> np.uint32(4 * j) & np.uint32(15)
        # The product puts a copy of the four bits at 0, 7, 14 and 21: one of each at the foot of a byte.
        spread |= (four * np.uint32(0x00204081) & np.uint32(0x01010101)) << np.uint32(j)
    return spread


_LOW, _HIGH = np.uint32(0x0F0F0F0F), np.uint32(0xF0F0F0F0)


def _words(field: Bytes) -> Words:
    words: Words = np.ascontiguousarray(field).view("<u4")
    return words


# ---- formats, from blocks (n, block_bytes) ---------------------------------------------------------------


def _values(blocks: Bytes) -> Planes:
    return blocks, None, None, None


def _q4_0(blocks: Bytes) -> Planes:
    return blocks[:, 2:18], None, blocks[:, 0:2], None


def _q4_1(blocks: Bytes) -> Planes:
    return blocks[:, 4:20], None, blocks[:, 0:4], None


def _q5_0(blocks: Bytes) -> Planes:
    return blocks[:, 6:22], spread_bits(blocks[:, 2:6]), blocks[:, 0:2], None


def _q5_1(blocks: Bytes) -> Planes:
    return blocks[:, 8:24], spread_bits(blocks[:, 4:8]), blocks[:, 0:4], None


def _q8_0(blocks: Bytes) -> Planes:
    return blocks[:, 2:34] ^ np.uint8(128), None, blocks[:, 0:2], None


def _q2_k(blocks: Bytes) -> Planes:
    return join_pairs(blocks[:, 16:80]), None, blocks[:, 0:16], blocks[:, 80:84]


def _q4_k(blocks: Bytes) -> Planes:
    q = np.stack(join_nibbles(blocks[:, 16:144]), axis=2)
    return q, None, _bytes_of_pairs(blocks), blocks[:, 0:4]


def _q5_k(blocks: Bytes) -> Planes:
    q = np.stack(join_nibbles(blocks[:, 48:176]), axis=2)
    return q, join_bits(blocks[:, 16:48]), _bytes_of_pairs(blocks), blocks[:, 0:4]


def _bytes_of_pairs(blocks: Bytes) -> Bytes:
    """Six-bit scales and minima as a byte each, side by side. Shapes: -> (n, 8, 2)."""
    return np.stack(six_bit_pairs(blocks[:, 4:16]), axis=-1)


def _q6_k(blocks: Bytes) -> Planes:
    # Of each half, two runs of 32 bytes hold the low nibbles of blocks 0 and 1, the high ones of 2 and 3.
    low, high = (plane.reshape(-1, 2, 2, 4) for plane in join_nibbles(blocks[:, 0:128]))
    q, highs = np.stack([low, high], axis=2), join_pairs(blocks[:, 128:192])
    return q, highs, blocks[:, 192:208], blocks[:, 208:210]


def _q3_k(blocks: Bytes) -> Planes:
    """As Q6_K: its q of -4..3 is stored as q + 32, its scales less 32 as the signed bytes they are."""
    high_bit = bit_list(blocks[:, 0:32]).reshape(-1, 32, 8).swapaxes(1, 2).reshape(-1, 256)
    q = two_bits(blocks[:, 32:96]) + np.uint8(4) * high_bit + np.uint8(28)
    packed = blocks[:, 96:108]
    high = np.concatenate([packed[:, 8:12] >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)
    scales = (nibbles(packed[:, 0:8]) | high << np.uint8(4)).astype(np.int8) - np.int8(32)
    # Each value a byte: 32 of them are what the runs of the joins are, with nothing in other bits.
    q = q.reshape(-1, 32)
    lows, highs = join_nibbles(q & np.uint8(15))[0], join_pairs(q >> np.uint8(4))[:, :, 0]
    return lows, highs, scales.view(np.uint8), blocks[:, 108:110]


def _iq4_nl(blocks: Bytes) -> Planes:
    return _steps(nibbles(blocks[:, 2:18])), None, _float_scale(blocks[:, 0:2]), None


def _iq4_xs(blocks: Bytes) -> Planes:
    highs = np.ascontiguousarray(blocks[:, 2:4]).view("<u2").astype(np.int32)
    high = highs >> np.arange(0, 16, 2) & 3
    lows = blocks[:, 4:8].astype(np.int32)
    low = np.stack([lows & 15, lows >> 4], axis=-1).reshape(-1, 8)
    scales = ((low | high << 4) - 32).astype(np.float32)
    floats = _float_scale(blocks[:, 0:2]).view(np.float32) * scales
    return _steps(nibbles(blocks[:, 8:136].reshape(-1, 8, 16))), None, floats.view(np.uint8), None


def _steps(indices: Bytes) -> Bytes:
    return (STEPS + 128).astype(np.uint8)[indices]


def _float_scale(field: Bytes) -> Bytes:
    return np.ascontiguousarray(field).view("<f2").astype(np.float32).view(np.uint8)


_PACKERS: dict[str, Callable[[Bytes], Planes]] = {
    "F32": _values,
    "F16": _values,
    "BF16": _values,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl,
    "IQ4_XS": _iq4_xs,
}
