"""The ops that take each value by itself: add, add_bias, gated, softcap, take_logit_rows."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.catalogue import ADD, ADD_BIAS, GATED, SOFTCAP, TAKE_LOGIT_ROWS
from kernels.cuda.launches import value_grid
from kernels.reference.gated import gated
from kernels.reference.softcap import softcap
from tests.kernels.cuda.bench import frozen

WIDTH, STRIDE = 150, 160  # more than one thread block, and rows that end with a pad
CLOSE = {"rtol": 3e-6, "atol": 1e-6}


def rows_of(seed, n=3, scale=1.0):
    return frozen(scale * np.random.default_rng(seed).standard_normal((n, STRIDE)), np.float32)


def called(bench, kernel, *arguments, n=3):
    """Only WIDTH values of a row are written."""
    y = np.full((n, STRIDE), 7.0, np.float32)
    bench.call(kernel, value_grid(WIDTH, n), *arguments[0], y, WIDTH, STRIDE, *arguments[1:])
    assert (y[:, WIDTH:] == 7.0).all()
    return y[:, :WIDTH]


def test_add(bench):
    x0, x1 = rows_of(0), rows_of(1)
    np.testing.assert_array_equal(called(bench, ADD, (x0, x1)), (x0 + x1)[:, :WIDTH])


def test_add_bias(bench):
    x, bias = rows_of(0), rows_of(1, n=1)[0]
    np.testing.assert_array_equal(called(bench, ADD_BIAS, (x, bias)), (x + bias)[:, :WIDTH])


@pytest.mark.parametrize(("code", "activation"), [(1, "silu"), (2, "gelu")])
def test_gated(bench, code, activation):
    """Also far out on both sides, where exp overflows."""
    gate, up = rows_of(0, scale=60.0), rows_of(1)
    expected = gated(gate, up, activation)[:, :WIDTH]
    np.testing.assert_allclose(called(bench, GATED, (gate, up), code), expected, **CLOSE)


def test_softcap(bench):
    x = rows_of(0, scale=40.0)
    np.testing.assert_allclose(
        called(bench, SOFTCAP, (x,), 30.0), softcap(x, 30.0)[:, :WIDTH], **CLOSE
    )


def test_take_logit_rows(bench):
    x, rows = rows_of(0, n=5), frozen([4, 1], np.int32)
    got = called(bench, TAKE_LOGIT_ROWS, (x, rows), n=2)
    np.testing.assert_array_equal(got, x[[4, 1], :WIDTH])
