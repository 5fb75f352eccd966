"""rms_norm.cu: the norm by itself, with a residual, and of chosen rows."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.catalogue import RMS_NORM
from kernels.reference.rms_norm import rms_norm, rms_norm_add
from kernels.reference.take_logit_rows import take_rms_norm
from tests.kernels.cuda.bench import frozen

EPS = 1e-6
CLOSE = {"rtol": 2e-6, "atol": 1e-6}


def rows_of(n, width, seed=0):
    return frozen(np.random.default_rng(seed).standard_normal((n, width)), np.float32)


def normed(bench, x, gain, rows=None, residual=None):
    y = np.full((len(x) if rows is None else len(rows), x.shape[1]), np.nan, np.float32)
    width = x.shape[1]
    bench.call(RMS_NORM, (len(y), 1, 1), x, rows, gain, residual, y, width, width, EPS)
    return y


@pytest.mark.parametrize("width", [32, 64, 576, 1024])
def test_norm(bench, width):
    """Narrower and wider than a thread block's 512 values."""
    x, gain = rows_of(3, width), rows_of(1, width, 1)[0]
    np.testing.assert_allclose(normed(bench, x, gain), rms_norm(x, gain, EPS), **CLOSE)


def test_residual(bench):
    x, gain, residual = rows_of(4, 96), rows_of(1, 96, 1)[0], rows_of(4, 96, 2)
    expected = rms_norm_add(x, residual, gain, EPS)
    np.testing.assert_allclose(normed(bench, x, gain, residual=residual), expected, **CLOSE)


def test_chosen_rows(bench):
    x, gain, rows = rows_of(6, 96), rows_of(1, 96, 1)[0], frozen([5, 0, 2], np.int32)
    expected = take_rms_norm(x, rows, gain, EPS)
    np.testing.assert_allclose(normed(bench, x, gain, rows=rows), expected, **CLOSE)


def test_neighbours(bench):
    """A row's bits are the same alone."""
    x, gain = rows_of(5, 200), rows_of(1, 200, 1)[0]
    np.testing.assert_array_equal(normed(bench, x, gain)[3:4], normed(bench, x[3:4], gain))
