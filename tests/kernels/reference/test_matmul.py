"""matmul and its fused endings."""

from __future__ import annotations

import numpy as np

from kernels.reference.gated import gated
from kernels.reference.matmul import matmul, matmul_add, matmul_gated


def _arrays(num_rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num_rows, 96)).astype(np.float32)
    weights = rng.standard_normal((2, 40, 96)).astype(np.float32)
    return x, weights


def test_it_multiplies():
    x, (weight, _) = _arrays(7)
    wanted = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(matmul(x, weight), wanted, atol=2e-5)


def test_no_rows():
    """A step without rows that want logits has a matmul of no rows."""
    x, (weight, _) = _arrays(0)
    assert matmul(x, weight).shape == (0, 40)


def test_a_row_does_not_depend_on_its_neighbours():
    """Bit for bit, wherever the row stands and however many there are."""
    x, (weight, _) = _arrays(9)
    whole = matmul(x, weight)
    for row in range(9):
        np.testing.assert_array_equal(matmul(x[row : row + 1].copy(), weight)[0], whole[row])


def test_endings():
    """The fused forms are their parts, one after another."""
    x, (gate, up) = _arrays(3)
    residual = np.ones((3, 40), np.float32)
    np.testing.assert_array_equal(matmul_add(x, residual, gate), matmul(x, gate) + residual)
    np.testing.assert_array_equal(
        matmul_gated(x, gate, up, "silu"), gated(matmul(x, gate), matmul(x, up), "silu")
    )
