"""What enters a page of any KV type comes back rounded as its definition says, and nothing else moves."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from kernels.cpu.kv_pages import append, values_of, widen_keys, widen_values
from kernels.cpu.kv_types import KV_TYPES, part_bytes
from kernels.cpu.layout import OP, OP_COLUMNS, PAGE
from kernels.cpu.simd import OPTIONS
from kernels.reference.kv_rounding import ROUNDINGS
from tests.kernels.cpu.calls import aligned

ROUNDED = {
    "f16": lambda x: x.astype(np.float16).astype(np.float32),
    "f32": lambda x: x,
    **ROUNDINGS,
}


@njit(**OPTIONS)
def _put(op, page, offset, key, value):
    append(op, page, offset, key.ctypes.data, value.ctypes.data)


@njit(**OPTIONS)
def _get(op, page, keys, values):
    widen_keys(op, page, keys.ctypes.data)
    widen_values(op, values_of(op, page), values.ctypes.data)


def contents(op, page, dim):
    keys, values = np.zeros((dim, PAGE), np.float32), np.zeros((PAGE, dim), np.float32)
    _get(op, page.ctypes.data, keys, values)
    return keys.T.copy(), values


@pytest.mark.parametrize("dim", [32, 64, 96, 256])
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_round_trip(kv_type, dim):
    """Positions in any order, values of any size, whole blocks of zeros and of one sign included."""
    rng = np.random.default_rng(0)
    op = np.zeros(OP_COLUMNS, np.int64)
    op[OP["HEAD_DIM"]], op[OP["KV_TYPE"]] = dim, KV_TYPES[kv_type]
    page = aligned(2 * part_bytes.py_func(KV_TYPES[kv_type], dim) + 64)
    page[-64:] = 77
    x = (rng.standard_normal((2, PAGE, dim)) * 10.0 ** rng.integers(-3, 3, (2, PAGE, 1))).astype(
        "f4"
    )
    x[:, 3], x[:, 4], x[:, 5] = 0, np.abs(x[:, 4]), -np.abs(x[:, 5])
    for offset in rng.permutation(PAGE):
        _put(op, page.ctypes.data, offset, x[0, offset], x[1, offset])
    for got, wanted in zip(contents(op, page, dim), ROUNDED[kv_type](x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-9)
    assert (page[-64:] == 77).all()


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_what_is_too_large(kv_type):
    """Infinities and NaN become the largest float16: they would spread to later readers of the page."""
    op = np.zeros(OP_COLUMNS, np.int64)
    op[OP["HEAD_DIM"]], op[OP["KV_TYPE"]] = 32, KV_TYPES[kv_type]
    page = aligned(2 * part_bytes.py_func(KV_TYPES[kv_type], 32))
    x = np.full(32, np.inf, np.float32)
    x[1], x[2] = -np.inf, np.nan
    _put(op, page.ctypes.data, 0, x, x)
    for got in contents(op, page, 32):
        assert np.isfinite(got).all()
        assert got[0, 0] > 6e4
