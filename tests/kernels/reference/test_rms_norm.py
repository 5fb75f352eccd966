"""rms_norm, its fused form with a residual, and its form per head."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.reference.head_rms_norm import head_rms_norm
from kernels.reference.rms_norm import rms_norm, rms_norm_add


def test_by_hand():
    """The row (3, 4) has mean square 12.5."""
    x = np.array([[3.0, 4.0]], np.float32)
    y = rms_norm(x, np.array([1.0, 2.0], np.float32), 0.0)
    assert y[0].tolist() == pytest.approx([3 / math.sqrt(12.5), 8 / math.sqrt(12.5)], rel=1e-6)


def test_eps_bounds_the_gain_of_a_zero_row():
    """A row of zeros stays zero; eps counts against the mean of squares, not the root."""
    zeros = np.zeros((1, 8), np.float32)
    assert not rms_norm(zeros, np.ones(8, np.float32), 1e-6).any()
    small = np.full((1, 8), 1e-3, np.float32)
    y = rms_norm(small, np.ones(8, np.float32), 3e-6)
    assert y[0, 0] == pytest.approx(1e-3 / math.sqrt(4e-6), rel=1e-5)


def test_the_residual_is_not_normalised():
    """rms_norm_add adds its second input after the gain."""
    rng = np.random.default_rng(0)
    x, residual = rng.standard_normal((2, 3, 16)).astype(np.float32)
    gain = rng.standard_normal(16).astype(np.float32)
    y = rms_norm_add(x, residual, gain, 1e-5)
    np.testing.assert_array_equal(y, rms_norm(x, gain, 1e-5) + residual)


def test_heads_by_themselves():
    """Scaling one head changes that head alone, and by nothing once normalised."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 24)).astype(np.float32)
    gain = rng.standard_normal(8).astype(np.float32)
    y = head_rms_norm(x, gain, 8, 0.0)
    scaled = x.copy()
    scaled[:, 8:16] *= 4
    np.testing.assert_allclose(head_rms_norm(scaled, gain, 8, 0.0), y, rtol=1e-6)
    np.testing.assert_array_equal(y[:, 16:], rms_norm(x[:, 16:], gain, 0.0))
