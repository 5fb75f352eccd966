"""softcap passes small values and bounds large ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.reference.softcap import softcap


def test_bounds():
    y = softcap(np.array([[0.01, 30.0, -1e6]], np.float32), 30.0)
    assert y[0].tolist() == pytest.approx([0.01, 30 * math.tanh(1), -30.0], rel=1e-6)
