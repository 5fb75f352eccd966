"""Many rows: in wide tiles a row gets the bits it gets alone, however it is cut."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cpu.formats import FORMATS
from kernels.cpu.layout import ADD, GATED_SILU
from kernels.cpu.pack import pack_gated, pack_weight
from tests.kernels.cpu import calls
from tests.kernels.cpu.calls import (
    Heap,
    Inline,
    activations,
    aligned,
    multiplied,
    random_tensor,
    weight_of,
)

ROWS = 71  # four panels of two tiles, or seventeen of one; a tile and less than a tile are left


def some_rows(num_rows, k, seed=1):
    return np.random.default_rng(seed).standard_normal((num_rows, k)).astype(np.float32)


def packed(quant, k, num_features=48):
    tensor = random_tensor(quant, num_features, k)
    return pack_weight(weight_of(tensor), Heap(), Inline())[0]


def bits_of_each_alone(part, rows, before=0):
    return before + np.concatenate([multiplied(part, rows[r : r + 1]) for r in range(len(rows))])


@pytest.mark.parametrize("k", [32, 96, 608, 640, 672, 1056, 1536])
@pytest.mark.parametrize("quant", ["Q4_0", "Q4_1", "Q8_0"])
def test_parts_of_rows(quant, k):
    """Rows of one part, of whole parts, and of parts and a rest."""
    part = packed(quant, k)
    rows, _ = activations(part, some_rows(ROWS, k))
    np.testing.assert_array_equal(multiplied(part, rows), bits_of_each_alone(part, rows))


@pytest.mark.parametrize("quant", [name for name in FORMATS if name not in ("F32", "F16", "BF16")])
def test_superblocks(quant):
    """A rest that is half a part, which is a superblock of every format that has them."""
    part = packed(quant, 768)
    rows, _ = activations(part, some_rows(ROWS, 768))
    np.testing.assert_array_equal(multiplied(part, rows), bits_of_each_alone(part, rows))


@pytest.mark.parametrize("quant", ["Q4_1", "Q6_K"])
@pytest.mark.parametrize("num_rows", [8, 9, 11, 12, 15, 16, 17, 24, 39, 40, 41, 47, 48, 64, 65])
def test_numbers_of_rows(quant, num_rows):
    part = packed(quant, 768)
    rows, _ = activations(part, some_rows(num_rows, 768))
    np.testing.assert_array_equal(multiplied(part, rows), bits_of_each_alone(part, rows))


def test_add():
    """What is there counts once, after all parts."""
    part, before = packed("Q4_1", 1536), some_rows(ROWS, 48, seed=2)
    rows, _ = activations(part, some_rows(ROWS, 1536))
    y = multiplied(part, rows, mode=ADD, out=before.copy(), threads=2)
    np.testing.assert_array_equal(y, bits_of_each_alone(part, rows, before))


def test_gated():
    gate, up = (random_tensor("Q4_1", 48, 672, seed) for seed in (1, 2))
    part = pack_gated(weight_of(gate), weight_of(up), Heap(), Inline())
    rows, _ = activations(part, some_rows(ROWS, 672) / 30)
    y = multiplied(part, rows, mode=GATED_SILU, threads=2, claims=True)
    alone = [multiplied(part, rows[r : r + 1], mode=GATED_SILU) for r in range(ROWS)]
    np.testing.assert_array_equal(y, np.concatenate(alone))


@pytest.mark.parametrize("rest", [1, 3, 13])
def test_last_row_block(rest):
    """The second-level cache holds 144 rows of 4096 columns: the rest may fill a tile or none."""
    part = packed("Q8_0", 4096, num_features=16)
    rows, _ = activations(part, some_rows(144 + rest, 4096))
    y = multiplied(part, rows)
    for r in (0, 143, 144, 144 + rest - 1):
        np.testing.assert_array_equal(y[r], multiplied(part, rows[r : r + 1])[0])


@pytest.mark.parametrize("k", [32, 640, 672, 1536])
@pytest.mark.parametrize("num_rows", [40, 48, 53])
def test_scratch(monkeypatch, k, num_rows):
    """Nothing is written past what matmul_scratch_bytes says."""
    guards = []

    def guarded(num_bytes):
        raw = aligned(num_bytes + 4096)
        raw[num_bytes:] = 0xA5
        guards.append(raw[num_bytes:])
        return raw[:num_bytes]

    part = packed("Q4_1", k)
    rows, _ = activations(part, some_rows(num_rows, k))
    monkeypatch.setattr(calls, "aligned", guarded)
    multiplied(part, rows)
    assert guards
    assert all((guard == 0xA5).all() for guard in guards)
