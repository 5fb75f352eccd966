"""gated multiplies its second input by an activation of the first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.reference.gated import gated

POINTS = np.array([[-100.0, -3.0, -0.5, 0.0, 0.5, 3.0, 100.0]], np.float32)


def test_silu():
    """x / (1 + exp(-x)), at both ends too."""
    wanted = [x / (1 + math.exp(-x)) if x > -50 else 0.0 for x in POINTS[0].tolist()]
    y = gated(POINTS, np.full_like(POINTS, 2.0), "silu")
    np.testing.assert_allclose(y[0], np.multiply(wanted, 2), rtol=2e-6, atol=1e-7)


def test_gelu():
    """The tanh form: at 3 it differs from the erf form by more than the tolerance."""
    wanted = [
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        for x in POINTS[0].tolist()
    ]
    y = gated(POINTS, np.ones_like(POINTS), "gelu")
    np.testing.assert_allclose(y[0], wanted, rtol=1e-6, atol=1e-7)
    assert abs(float(y[0, 5]) - 3 * 0.5 * (1 + math.erf(3 / math.sqrt(2)))) > 1e-4


def test_an_unknown_activation():
    with pytest.raises(KeyError):
        gated(POINTS, POINTS, "relu")
