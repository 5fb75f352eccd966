"""add takes two buffers; add_bias gives every row the same."""

from __future__ import annotations

import numpy as np

from kernels.reference.add import add
from kernels.reference.add_bias import add_bias

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_add():
    assert add(X, 2 * X).tolist() == (3 * X).tolist()


def test_add_bias():
    y = add_bias(X, np.array([1, 0, -1], np.float32))
    assert y[0].tolist() == [1, 1, 1]
    assert y[3].tolist() == [10, 10, 10]
