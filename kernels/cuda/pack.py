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
    # quants, highs, scales, supers; None where the format has no such plane
    Planes = tuple[Bytes, Bytes | None, Bytes | None, Bytes | None]


def pack(quant: str, rows: Bytes) -> Planes:
    """Planes of rows, each one row after another.

    Shapes: rows (num_rows, row_bytes) uint8; every plane is flat. Raises: KeyError for a format
    that nothing packs.
    """
    blocks = np.ascontiguousarray(rows).reshape(-1, QUANTS[quant].block_bytes)
    quants, *others = _PACKERS[quant](blocks)
    highs, scales, supers = (None if plane is None else _flat(plane) for plane in others)
    return _flat(quants), highs, scales, supers


def _flat(plane: Bytes) -> Bytes:
    return np.ascontiguousarray(plane).view(np.uint8).reshape(-1)


# ---- bits, as kernels/cuda/formats/parts.cuh reads them; the last axis is a block's 32 values ------------


def pack_nibbles(q: Bytes) -> Bytes:
    """(..., 32) values 0..15 -> (..., 16): value i low, value i + 16 high."""
    packed: Bytes = q[..., :16] | q[..., 16:] << np.uint8(4)
    return packed


def pack_pairs(q: Bytes) -> Bytes:
    """(..., 32) values 0..3 -> (..., 8): value 16 w + 4 j + i in bits 2 j of byte 4 w + i."""
    fields = q.reshape(*q.shape[:-1], 2, 4, 4) << np.array([0, 2, 4, 6], np.uint8)[:, None]
    packed: Bytes = np.bitwise_or.reduce(fields, axis=-2).reshape(*q.shape[:-1], 8)
    return packed


def pack_bits(q: Bytes) -> Bytes:
    """(..., 32) values 0..1 -> (..., 4): value 4 j + i in bit j of byte i."""
    fields = q.reshape(*q.shape[:-1], 8, 4) << np.arange(8, dtype=np.uint8)[:, None]
    packed: Bytes = np.bitwise_or.reduce(fields, axis=-2)
    return packed


# ---- formats, from blocks (n, block_bytes) ---------------------------------------------------------------


def _values(blocks: Bytes) -> Planes:
    return blocks, None, None, None


def _q4_0(blocks: Bytes) -> Planes:
    return blocks[:, 2:18], None, blocks[:, 0:2], None


def _q4_1(blocks: Bytes) -> Planes:
    return blocks[:, 4:20], None, blocks[:, 0:4], None


def _q5_0(blocks: Bytes) -> Planes:
    return blocks[:, 6:22], pack_bits(bit_list(blocks[:, 2:6])), blocks[:, 0:2], None


def _q5_1(blocks: Bytes) -> Planes:
    return blocks[:, 8:24], pack_bits(bit_list(blocks[:, 4:8])), blocks[:, 0:4], None


def _q8_0(blocks: Bytes) -> Planes:
    return blocks[:, 2:34] ^ np.uint8(128), None, blocks[:, 0:2], None


def _q2_k(blocks: Bytes) -> Planes:
    q = pack_pairs(two_bits(blocks[:, 16:80]).reshape(-1, 8, 32))
    return q, None, blocks[:, 0:16], blocks[:, 80:84]


def _q4_k(blocks: Bytes) -> Planes:
    q = nibbles(blocks[:, 16:144].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return pack_nibbles(q), None, _bytes_of_pairs(blocks), blocks[:, 0:4]


def _q5_k(blocks: Bytes) -> Planes:
    high = bit_list(blocks[:, 16:48]).reshape(-1, 32, 8).swapaxes(1, 2)
    low = nibbles(blocks[:, 48:176].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return pack_nibbles(low), pack_bits(high), _bytes_of_pairs(blocks), blocks[:, 0:4]


def _bytes_of_pairs(blocks: Bytes) -> Bytes:
    """Six-bit scales and minima as a byte each, side by side. Shapes: -> (n, 8, 2)."""
    return np.stack(six_bit_pairs(blocks[:, 4:16]), axis=-1)


def _q6_k(blocks: Bytes) -> Planes:
    low = nibbles(blocks[:, 0:128].reshape(-1, 2, 64)).reshape(-1, 8, 32)
    high = two_bits(blocks[:, 128:192]).reshape(-1, 8, 32)
    return pack_nibbles(low), pack_pairs(high), blocks[:, 192:208], blocks[:, 208:210]


def _q3_k(blocks: Bytes) -> Planes:
    """As Q6_K: its q of -4..3 is stored as q + 32, its scales less 32 as the signed bytes they are."""
    high_bit = bit_list(blocks[:, 0:32]).reshape(-1, 32, 8).swapaxes(1, 2).reshape(-1, 256)
    q = two_bits(blocks[:, 32:96]) + np.uint8(4) * high_bit + np.uint8(28)
    packed = blocks[:, 96:108]
    high = np.concatenate([packed[:, 8:12] >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)
    scales = (nibbles(packed[:, 0:8]) | high << np.uint8(4)).astype(np.int8) - np.int8(32)
    q = q.reshape(-1, 8, 32)
    return (
        pack_nibbles(q & np.uint8(15)),
        pack_pairs(q >> np.uint8(4)),
        scales.view(np.uint8),
        blocks[:, 108:110],
    )


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
