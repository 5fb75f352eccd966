"""Planes hold what the file's quant blocks hold: read back in NumPy as the kernels read them."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.formats import BLOCK_LEN, FORMATS, format_of
from kernels.cuda.pack import join_bits, join_nibbles, join_pairs, pack, spread_bits
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


def random_bytes(n):
    return np.random.default_rng(0).integers(0, 256, (5, n), dtype=np.uint8)


def test_nibbles():
    """Two runs of 32 bytes: byte i of a block holds value i and, above it, value i + 16."""
    field = random_bytes(64)
    for plane, values in zip(join_nibbles(field), (field & 15, field >> 4), strict=True):
        packed, values = plane.view(np.uint8).reshape(5, 2, 16), values.reshape(5, 2, 32)
        np.testing.assert_array_equal(packed & 15, values[..., :16])
        np.testing.assert_array_equal(packed >> 4, values[..., 16:])


def test_pairs():
    """Two runs of 32 bytes, of four blocks each."""
    field = random_bytes(64)
    packed = join_pairs(field).view(np.uint8).reshape(5, 2, 4, 8)
    for block in range(4):
        values = field.reshape(5, 2, 32) >> 2 * block & 3
        for at in range(32):
            j, i = divmod(at, 4)
            got = packed[:, :, block, 4 * (j // 4) + i] >> 2 * (j % 4) & 3
            np.testing.assert_array_equal(got, values[:, :, at])


def test_bits():
    """Of eight blocks in 32 bytes, and of one block in four bytes."""
    field = random_bytes(32)
    packed = join_bits(field).view(np.uint8).reshape(5, 8, 4)
    spread = spread_bits(field[:, :4]).view(np.uint8).reshape(5, 4)
    in_a_row = np.unpackbits(field[:, :4], axis=-1, bitorder="little")
    for at in range(32):
        j, i = divmod(at, 4)
        for block in range(8):
            got = packed[:, block, i] >> j & 1
            np.testing.assert_array_equal(got, field[:, at] >> block & 1)
        np.testing.assert_array_equal(spread[:, i] >> j & 1, in_a_row[:, at])


def test_unknown_format():
    """A format that nothing packs is known before any of it is read."""
    assert format_of("IQ1_S") is None
