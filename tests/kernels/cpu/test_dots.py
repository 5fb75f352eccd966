"""Every form of the dot product of bytes gives the same integers, on this host and on older ones."""

from __future__ import annotations

import pytest

from kernels.cpu import kernel_cache
from tests.kernels.cpu.subprocesses import run_python

# Random bytes and the limits of both operands, as 16 lanes of 4: checked against NumPy.
DOTS = """
import numpy as np
from numba import njit
from kernels.cpu import kernel_cache
ISA = kernel_cache.configure(isa={isa!r}).isa
from kernels.cpu.simd import OPTIONS, dot4, dot4_wide, float_tile, hsum_i, int_tile, load_i, sum_tile

@njit(**OPTIONS)
def dots(w, x, out, out_wide, n):
    for i in range(n):
        v, at = load_i(w.ctypes.data + 64 * i), x.ctypes.data + 4 * i
        out_wide[i] = hsum_i(sum_tile(dot4_wide(int_tile(float_tile(1)), v, at, 0)))
        out[i] = hsum_i(sum_tile(dot4(int_tile(float_tile(1)), v, at, 0)))

rng = np.random.default_rng(0)
w = rng.integers(0, 256, (512, 64)).astype(np.uint8)
x = rng.integers(-128, 128, (512, 4)).astype(np.int8)
w[:4], w[4:8], w[8:12] = 255, 128, 127
x[:12:4], x[1:12:4], x[2:12:4] = 127, -128, -1
out, out_wide = np.zeros((2, 512), np.int32)
narrow = w & 127
dots(w, x, out, out_wide, 512)
products = w.reshape(512, 16, 4).astype(np.int32) * x[:, None]
assert (out_wide == products.sum((1, 2))).all()
dots(narrow, x, out, out_wide, 512)
products = narrow.reshape(512, 16, 4).astype(np.int32) * x[:, None]
assert (out == products.sum((1, 2))).all()
print(ISA)
"""


def runs_here(isa):
    return kernel_cache.ISAS.index(isa) >= kernel_cache.ISAS.index(kernel_cache.host_isa())


@pytest.mark.parametrize("isa", kernel_cache.ISAS)
def test_forced(isa):
    """A host runs the forms of older hosts when asked to."""
    if not runs_here(isa):
        pytest.skip(f"this host has no {isa}")
    assert run_python(DOTS.format(isa=isa)) == isa


@pytest.mark.parametrize(
    ("cpu", "features", "isa"),
    [
        ("haswell", "+avx2,+fma,+f16c,+ssse3,+avx", "avx2"),
        ("sandybridge", "+ssse3,+avx", "ssse3"),
        ("x86-64", "", "generic"),
    ],
)
def test_older_hosts(cpu, features, isa):
    """The features that numba compiles for decide the form."""
    if not runs_here(isa):
        pytest.skip(f"this host has no {isa}")
    environ = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}
    assert run_python(DOTS.format(isa=None), **environ) == isa


def test_whole_matmul_on_an_older_host():
    """A matmul compiled for a host without AVX2, FMA and F16C is as exact as any."""
    if not runs_here("ssse3"):
        pytest.skip("this host is no x86")
    code = """
from tests.kernels.cpu.test_matmul import test_product
test_product("Q8_0", 7)
print("exact")
"""
    environ = {"NUMBA_CPU_NAME": "sandybridge", "NUMBA_CPU_FEATURES": "+ssse3,+avx"}
    assert run_python(code, **environ) == "exact"
