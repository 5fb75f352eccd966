"""The matmul of every format: right, and the same bits for a row whatever is beside it."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cpu.formats import FORMATS
from kernels.cpu.layout import ADD, GATED_GELU, GATED_SILU
from kernels.cpu.pack import pack_gated, pack_weight
from kernels.reference.dequantise import dequantise
from tests.kernels.cpu.calls import (
    Heap,
    Inline,
    activations,
    multiplied,
    random_tensor,
    weight_of,
)

# Products are exact; what remains is rounding of float32 sums, relative to the sum of absolute terms.
ROUNDING = 1e-6


def packed(*tensors):
    return pack_weight(weight_of(*tensors), Heap(), Inline())


def some_rows(num_rows, k, seed=1):
    """Normal values, with a row of zeros, an outlier and blocks of very different size."""
    x = np.random.default_rng(seed).standard_normal((num_rows, k)).astype(np.float32)
    x[:, :32] *= 100
    x[-1, -9] = 1e4
    x[1:2] = 0
    return x


def check(y, weights, x, rounding=ROUNDING):
    weights, x = weights.astype(np.float64), x.astype(np.float64)
    error, terms = np.abs(y - x @ weights.T), np.abs(x) @ np.abs(weights).T
    assert (error <= rounding * terms).all(), (error / np.maximum(terms, 1e-30)).max()


@pytest.mark.parametrize("quant", FORMATS)
@pytest.mark.parametrize("num_rows", [1, 7, 53])
def test_product(quant, num_rows):
    """W x for odd numbers of weight rows and activation rows, and zeros in the padding."""
    tensor, x = random_tensor(quant, 37, 512), some_rows(num_rows, 512)
    (part,) = packed(tensor)
    rows, values = activations(part, x)
    y = multiplied(part, rows)
    check(y[:, :37], dequantise(quant, tensor.data, 37, 512), values)
    assert not y[:, 37:].any()


@pytest.mark.parametrize("quant", ["Q4_0", "Q5_1", "Q8_0", "F16", "BF16"])
@pytest.mark.parametrize("k", [64, 96, 128])
@pytest.mark.parametrize("num_rows", [5, 27])
def test_narrow_product(quant, k, num_rows):
    """Rows of a few quant blocks, as small models have them."""
    tensor, x = random_tensor(quant, 16, k), some_rows(num_rows, k)
    (part,) = packed(tensor)
    rows, values = activations(part, x)
    check(multiplied(part, rows), dequantise(quant, tensor.data, 16, k), values)


@pytest.mark.parametrize("quant", FORMATS)
def test_same_bits(quant):
    """A row's result does not depend on how many rows or threads there are."""
    tensor, x = random_tensor(quant, 80, 256), some_rows(53, 256)
    (part,) = packed(tensor)
    rows, _ = activations(part, x)
    alone = np.concatenate([multiplied(part, rows[r : r + 1]) for r in range(53)])
    for num_rows in (2, 3, 4, 8, 15, 16, 53):
        for threads in (1, 2, 3):
            y = multiplied(part, rows[:num_rows], threads=threads)
            np.testing.assert_array_equal(y.view(np.uint32), alone[:num_rows].view(np.uint32))


@pytest.mark.parametrize("num_rows", [1, 8, 53])
@pytest.mark.parametrize("num_features", [16, 64, 1104])
@pytest.mark.parametrize("mode", [ADD, GATED_SILU])
def test_claimed(mode, num_rows, num_features):
    """Every group is computed once, whether it is in a thread's share or claimed."""
    gate, up = (random_tensor("Q8_0", num_features, 256, seed) for seed in (1, 2))
    pair = weight_of(gate), weight_of(up)
    part = pack_gated(*pair, Heap(), Inline()) if mode == GATED_SILU else packed(gate)[0]
    rows, _ = activations(part, some_rows(num_rows, 256))
    before = some_rows(num_rows, num_features, seed=2)
    alone = multiplied(part, rows, mode=mode, out=before.copy())
    for threads in (1, 2, 3):
        y = multiplied(part, rows, mode=mode, out=before.copy(), threads=threads, claims=True)
        np.testing.assert_array_equal(y, alone)


def test_many_rows():
    """More rows than the second-level cache holds give what each gives alone."""
    tensor, x = random_tensor("Q8_0", 32, 4096), some_rows(301, 4096)
    (part,) = packed(tensor)
    rows, _ = activations(part, x)
    y = multiplied(part, rows, threads=2)
    for r in (0, 143, 144, 160, 299, 300):
        np.testing.assert_array_equal(y[r], multiplied(part, rows[r : r + 1])[0])


@pytest.mark.parametrize("quant", ["Q4_1", "F16"])
def test_add(quant):
    """ADD adds to what is there, once."""
    tensor, x = random_tensor(quant, 32, 256), some_rows(11, 256)
    (part,) = packed(tensor)
    rows, _ = activations(part, x)
    before = some_rows(11, 32, seed=2)
    y = multiplied(part, rows, mode=ADD, out=before.copy(), threads=2)
    np.testing.assert_array_equal(y, before + multiplied(part, rows))


def test_column_ranges():
    """Parts of different formats fill their own columns of one output and no others."""
    tensors = [random_tensor("Q4_K", 48, 256, 1), random_tensor("Q6_K", 16, 256, 2)]
    parts = packed(tensors[0], tensors[0], tensors[1])
    assert [(p.format.name, p.first_column, p.num_rows) for p in parts] == [
        ("Q4_K", 0, 96),
        ("Q6_K", 96, 16),
    ]
    rows, values = activations(parts[0], some_rows(3, 256))
    out = np.full((3, 128), 7, np.float32)
    for part in reversed(parts):
        multiplied(part, rows, out=out)
    first, last = (dequantise(t.quant, t.data, *t.shape) for t in tensors)
    check(out[:, :112], np.concatenate([first, first, last]), values)
    assert (out[:, 112:] == 7).all()


@pytest.mark.parametrize("quant", ["Q4_1", "F32"])
@pytest.mark.parametrize("mode", [GATED_SILU, GATED_GELU])
def test_gated(quant, mode):
    """act(gate) * up, where gate and up are two weights of one format."""
    gate, up = random_tensor(quant, 48, 64, 1), random_tensor(quant, 48, 64, 2)
    part = pack_gated(weight_of(gate), weight_of(up), Heap(), Inline())
    rows, values = activations(part, some_rows(9, 64) / 30)
    g, u = (values @ dequantise(quant, t.data, 48, 64).astype(np.float64).T for t in (gate, up))
    sigmoid_of = g if mode == GATED_SILU else (8 / np.pi) ** 0.5 * (g + 0.044715 * g**3)
    expected = g / (1 + np.exp(np.clip(-sigmoid_of, -700, 700))) * u
    for threads in (1, 2):
        y = multiplied(part, rows, mode=mode, threads=threads)
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-4 * np.abs(expected).mean())
