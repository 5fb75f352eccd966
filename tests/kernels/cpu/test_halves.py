"""float16 conversion in software, for CPUs without it, has the bits of the hardware's."""

from __future__ import annotations

import platform

import pytest

from tests.kernels.cpu.subprocesses import run_python

# Every half; every float near where halves change, and random bits.
CODE = """
import numpy as np
from numba import njit
from kernels.cpu.simd import OPTIONS, load1_f16, load_f, load_f16, scatter_f16, store1_f32, store_f, store_f16
from kernels.cpu.simd.halves import IN_HARDWARE
from tests.kernels.cpu.calls import aligned

@njit(**OPTIONS)
def widen(src, dst, one, n):
    for i in range(0, n, 16):
        store_f(dst + 4 * i, load_f16(src + 2 * i))
    for i in range(n):
        store1_f32(one + 4 * i, load1_f16(src + 2 * i))

@njit(**OPTIONS)
def narrow(src, dst, far, n):
    for i in range(0, n, 16):
        store_f16(dst + 2 * i, load_f(src + 4 * i))
        scatter_f16(far + 2 * i, load_f(src + 4 * i), 2)

assert not IN_HARDWARE
halves = np.arange(1 << 16, dtype=np.uint16)
wide, ones = np.zeros((2, 1 << 16), np.float32)
widen(halves.ctypes.data, wide.ctypes.data, ones.ctypes.data, 1 << 16)
expected = halves.view(np.float16).astype(np.float32)
number = ~np.isnan(expected)
for got in (wide, ones):
    assert (got.view(np.uint32) == expected.view(np.uint32))[number].all()
    assert np.isnan(got[~number]).all()

edges = (expected[number & (halves < 0x7C00)].view(np.uint32)[:, None] + np.arange(-2, 3, dtype=np.int64))
middles = edges + 0x1000
special = np.array([np.inf, -np.inf, np.nan, 65519.9, 65520, 65536, 1e-8, 3e38], np.float32).view(np.uint32)
random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16)
bits = np.concatenate([edges.ravel(), middles.ravel(), special, random]) & 0xFFFFFFFF
bits = np.concatenate([bits, bits ^ 0x80000000]).astype(np.uint32)
bits = np.resize(bits, -(-len(bits) // 16) * 16)
out, far = np.zeros((2, len(bits)), np.uint16)
narrow(bits.ctypes.data, out.ctypes.data, far.ctypes.data, len(bits))
with np.errstate(over="ignore", invalid="ignore"):
    expected = bits.view(np.float32).astype(np.float16)
number = ~np.isnan(expected)
for got in (out, far):
    assert (got == expected.view(np.uint16))[number].all()
    assert np.isnan(got.view(np.float16)[~number]).all()
print("same bits")
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other CPUs convert in hardware")
def test_software_conversion():
    """All halves, the floats around each and around each middle, infinities, NaN and random floats."""
    environ = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
    assert run_python(CODE, **environ) == "same bits"
