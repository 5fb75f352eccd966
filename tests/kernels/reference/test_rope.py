"""rope turns half-split pairs and leaves the rest of a head alone."""

from __future__ import annotations

import numpy as np

from kernels.reference.rope import rope
from kernels.specs.tensor import RopeTable


def _turned(x, positions, head_dim, table):
    """Pairs as complex numbers, in float64."""
    y = x.astype(np.float64).reshape(len(x), -1, head_dim)
    n = table.num_pairs
    pairs = y[..., :n] + 1j * y[..., n : 2 * n]
    pairs = pairs * table.magnitude * np.exp(1j * np.outer(positions, table.inv_freq))[:, None]
    y[..., :n], y[..., n : 2 * n] = pairs.real, pairs.imag
    return y.reshape(x.shape)


def test_it_turns_pairs():
    """Every head turns by its row's position; the magnitude scales what was turned."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 3 * 16)).astype(np.float32)
    positions = np.array([0, 1, 7, 1000, 100_000], np.int32)
    table = RopeTable(10000.0 ** -(np.arange(8) / 8), magnitude=1.25)
    np.testing.assert_allclose(
        rope(x, positions, 16, table), _turned(x, positions, 16, table), atol=2e-6
    )


def test_position_zero_changes_nothing():
    x = np.arange(16, dtype=np.float32).reshape(1, 16)
    y = rope(x, np.zeros(1, np.int32), 16, RopeTable(np.ones(8)))
    np.testing.assert_array_equal(y, x)


def test_dimensions_past_the_pairs_are_left_alone():
    """With 2 pairs in heads of 8, dimensions 4 to 7 keep their values, magnitude or not."""
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 16)
    y = rope(x, np.array([3], np.int32), 8, RopeTable(np.ones(2), magnitude=2.0))
    np.testing.assert_array_equal(y.reshape(2, 8)[:, 4:], x.reshape(2, 8)[:, 4:])
    assert (y.reshape(2, 8)[:, :4] != x.reshape(2, 8)[:, :4]).all()


def test_the_input_is_not_written():
    x = np.ones((1, 4), np.float32)
    rope(x, np.array([5], np.int32), 4, RopeTable(np.ones(2)))
    np.testing.assert_array_equal(x, np.ones((1, 4), np.float32))
