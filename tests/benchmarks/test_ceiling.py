"""The machine's limits can be measured on every host, AMX or not."""

from __future__ import annotations

from benchmarks.ceiling import measure
from kernels.cpu.simd import HAS_AMX


def test_measured_on_this_host():
    ceiling = measure(1, num_bytes=1 << 20, repeats=100)
    assert ceiling.threads == 1
    assert ceiling.read_gb_s > 0
    assert ceiling.multiply_adds_g_s > 0
    assert (ceiling.amx_multiply_adds_g_s is not None) == HAS_AMX
