"""Every form of the dot product of bytes gives the same integers, on this host and on older ones."""

from __future__ import annotations

import pytest

from kernels.cpu import kernel_cache
from tests.kernels.cpu.subprocesses import run_python

# Random bytes and the limits of both operands, as 16 lanes of 4: checked against NumPy. Short sums of
# words_in_short words, the largest weights among them; weights of 8 bits less 128.
DOTS = """
import numpy as np
from numba import njit
from kernels.cpu import kernel_cache
ISA = kernel_cache.configure(isa={isa!r}).isa
from kernels.cpu.simd import (OPTIONS, begin_short, dot4_eight, dot4_short, end_short, float_tile, hsum_i,
    int_tile, load_i, start_eight, sum_tile, words_in_short)

@njit(**OPTIONS)
def eights(w, x, minus_sums, out):
    for i in range(len(out)):
        acc = start_eight(float_tile(1), minus_sums.ctypes.data + 4 * i, 0)
        acc = dot4_eight(acc, load_i(w.ctypes.data + 64 * i), x.ctypes.data + 4 * i, 0)
        out[i] = hsum_i(sum_tile(acc))

@njit(**OPTIONS)
def shorts(w, x, out, num_words):
    for i in range(len(out)):
        short = begin_short(int_tile(float_tile(1)))
        for word in range(i * num_words, (i + 1) * num_words):
            v, at = load_i(w.ctypes.data + 64 * word), x.ctypes.data + 4 * word
            short = dot4_short(short, v, at, 0)
        out[i] = hsum_i(sum_tile(end_short(int_tile(float_tile(1)), short)))

rng = np.random.default_rng(0)
w = rng.integers(0, 256, (512, 64)).astype(np.uint8)
x = rng.integers(-127, 128, (512, 4)).astype(np.int8)
w[:16], w[16:32], w[32:48] = 255, 128, 0
x[:48:2], x[1:48:2] = 127, -127
x[:8] = 127
minus_sums, out = -x.sum(1, dtype=np.int32), np.zeros(512, np.int32)
eights(w, x, minus_sums, out)
products = (w.reshape(512, 16, 4).astype(np.int32) - 128) * x[:, None]
assert (out == products.sum((1, 2))).all()
for bits in range(2, 8):
    few, num_words = w & (2**bits - 1), words_in_short(bits)
    few[:16] = 2**bits - 1
    out = np.zeros(512 // num_words, np.int32)
    shorts(few, x, out, num_words)
    products = few.reshape(512, 16, 4).astype(np.int32) * x[:, None]
    sums = products.sum((1, 2))[:len(out) * num_words]
    assert (out == sums.reshape(-1, num_words).sum(1)).all(), bits
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
