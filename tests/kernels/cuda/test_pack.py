"""Planes hold what the file's quant blocks hold: read back in NumPy as the kernels read them."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.formats import BLOCK_LEN, FORMATS, format_of
from kernels.cuda.pack import pack, pack_bits, pack_nibbles, pack_pairs
from kernels.reference.dequantise import DEQUANTISERS
from kernels.specs.quants import QUANTS, row_bytes
from tests.kernels.cpu.calls import random_tensor

ROWS, K = 3, 512


@pytest.mark.parametrize("quant", sorted(DEQUANTISERS))
def test_sizes(quant):
    """Every format that can be expanded has planes, each as large as the die's format says."""
    data = random_tensor(quant, ROWS, K).data.reshape(ROWS, row_bytes(quant, K))
    expected = format_of(quant).plane_bytes(ROWS * K // BLOCK_LEN)
    got = [0 if plane is None else plane.nbytes for plane in pack(quant, data)]
    assert tuple(got) == expected


@pytest.mark.parametrize("quant", sorted(DEQUANTISERS))
def test_rows_one_by_one(quant):
    """Rows packed a few at a time lie as if packed all at once."""
    data = random_tensor(quant, ROWS, K).data.reshape(ROWS, row_bytes(quant, K))
    whole, pieces = pack(quant, data), [pack(quant, data[at : at + 1]) for at in range(ROWS)]
    for plane, *parts in zip(whole, *pieces, strict=True):
        if plane is not None:
            np.testing.assert_array_equal(np.concatenate(parts), plane)


def test_bits_per_weight():
    """What a die stores is at most a few per cent above the file, converted formats aside."""
    for name, fmt in FORMATS.items():
        if name in QUANTS:
            spec = QUANTS[name]
            assert fmt.bits_per_weight <= 1.03 * 8 * spec.block_bytes / spec.block_len


def values(limit):
    return np.random.default_rng(0).integers(0, limit, (5, 32), dtype=np.uint8)


def test_nibbles():
    q = values(16)
    packed = pack_nibbles(q)
    for at in range(32):
        byte = packed[:, at % 16]
        np.testing.assert_array_equal(byte >> 4 if at >= 16 else byte & 15, q[:, at])


def test_pairs():
    q = values(4)
    packed = pack_pairs(q)
    for at in range(32):
        j, i = divmod(at, 4)
        np.testing.assert_array_equal(packed[:, 4 * (j // 4) + i] >> 2 * (j % 4) & 3, q[:, at])


def test_bits():
    q = values(2)
    packed = pack_bits(q)
    for at in range(32):
        j, i = divmod(at, 4)
        np.testing.assert_array_equal(packed[:, i] >> j & 1, q[:, at])


def test_unknown_format():
    """A format that nothing packs is known before any of it is read."""
    assert format_of("IQ1_S") is None
