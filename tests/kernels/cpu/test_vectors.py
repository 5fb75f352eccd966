"""The vector vocabulary computes what its names say, lane by lane and in a fixed order."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from kernels.cpu.simd import (
    OPTIONS,
    f32,
    hmax,
    hsum,
    i64,
    load_bf16,
    load_f,
    mask_beyond,
    store_f,
    vexp,
    vexp2,
)


@njit(**OPTIONS)
def _exp(x, y):
    for i in range(0, x.size, 16):
        store_f(y.ctypes.data + 4 * i, vexp(load_f(x.ctypes.data + 4 * i)))


@njit(**OPTIONS)
def _exp2(x, y):
    for i in range(0, x.size, 16):
        store_f(y.ctypes.data + 4 * i, vexp2(load_f(x.ctypes.data + 4 * i)))


@njit(**OPTIONS)
def _reduce(x):
    v = load_f(x.ctypes.data)
    return hsum(v), hmax(v)


@njit(**OPTIONS)
def _mask(x, y, first, last):
    store_f(y.ctypes.data, mask_beyond(load_f(x.ctypes.data), i64(first), i64(last), f32(-1.0)))


@njit(**OPTIONS)
def _widen_bf16(x, y):
    store_f(y.ctypes.data, load_bf16(x.ctypes.data))


def test_exp():
    """Within 2e-7 of exp over the whole range, exactly 1 at 0, and clamped without overflow."""
    x = np.linspace(-87, 88, 160_000, dtype=np.float32)
    y = np.zeros_like(x)
    _exp(x, y)
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=2e-7)
    edges = np.array([0, -0.0, 1e4, -1e4] * 4, np.float32)
    out = np.zeros(16, np.float32)
    _exp(edges, out)
    assert out[0] == out[1] == 1
    assert np.isfinite(out[2]) and 0 < out[3] < 1e-37


def test_exp2():
    """Within 2e-7 of 2^x down to -126, exactly 1 at 0, and clamped below."""
    x = np.linspace(-126, 126, 160_000, dtype=np.float32)
    y = np.zeros_like(x)
    _exp2(x, y)
    np.testing.assert_allclose(y, np.exp2(x.astype(np.float64)), rtol=2e-7)
    edges = np.array([0, -0.0, -1e30, -127.5] * 4, np.float32)
    out = np.zeros(16, np.float32)
    _exp2(edges, out)
    assert out[0] == out[1] == 1
    assert out[2] == out[3] == np.float32(2.0**-126)


def test_reductions():
    """Sums fold halves onto each other, in that order; the maximum finds negative values too."""
    x = (np.random.default_rng(0).standard_normal(16) * 1e3 - 4e3).astype(np.float32)
    total, largest = _reduce(x)
    folded = x
    while len(folded) > 1:
        folded = folded[: len(folded) // 2] + folded[len(folded) // 2 :]
    assert np.float32(total) == folded[0]
    assert np.float32(largest) == x.max()


@pytest.mark.parametrize(("first", "last"), [(0, 15), (32, 40), (32, 31), (0, 100)])
def test_mask(first, last):
    """Lanes whose index is past `last` become the fill value, all others stay."""
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    _mask(x, y, first, last)
    np.testing.assert_array_equal(y, np.where(first + np.arange(16) <= last, x, -1))


def test_bf16():
    """bfloat16 is a float32's upper half."""
    bits = np.random.default_rng(0).integers(0, 1 << 16, 16).astype(np.uint16)
    y = np.zeros(16, np.float32)
    _widen_bf16(bits, y)
    np.testing.assert_array_equal(y.view(np.uint32), bits.astype(np.uint32) << 16)
