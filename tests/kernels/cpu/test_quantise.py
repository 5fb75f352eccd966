"""A quantised row holds what its definition says, bit for bit, however many blocks it has."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from kernels.cpu.layout import ACT_BLOCK
from kernels.cpu.quantise import quantise_row
from kernels.cpu.simd import OPTIONS
from tests.kernels.cpu.calls import aligned, quantised_rows


@njit(**OPTIONS)
def _quantise(x, out):
    quantise_row(x.ctypes.data, out.ctypes.data, x.shape[0])


@pytest.mark.parametrize("num_blocks", [1, 3, 4, 5, 6, 7, 8, 18, 21])
def test_row(num_blocks):
    """Values of any size, whole blocks of zeros and zeros among others included."""
    rng, num_bytes = np.random.default_rng(num_blocks), num_blocks * ACT_BLOCK
    for _ in range(8):
        x = rng.standard_normal((num_blocks, 32)) * 10.0 ** rng.integers(-20, 20, (num_blocks, 1))
        x[rng.integers(num_blocks)] = 0
        x[:, rng.integers(32)] = 0
        x = x.astype(np.float32).reshape(-1)
        out = aligned(num_bytes + 64)
        out[num_bytes:] = 77
        _quantise(x, out)
        np.testing.assert_array_equal(out[:num_bytes], quantised_rows(x[None])[0][0, :num_bytes])
        assert (out[num_bytes:] == 77).all()
