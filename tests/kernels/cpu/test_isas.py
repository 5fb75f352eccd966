"""Every instruction set computes the same matmul: the same bits wherever there is a fused multiply-add."""

from __future__ import annotations

import pytest

from kernels.cpu import kernel_cache
from tests.kernels.cpu.subprocesses import run_python

# A format with minima, and one with an offset and scales for runs of 16.
PRODUCTS = """
import hashlib
import numpy as np
from kernels.cpu import kernel_cache
kernel_cache.configure(isa={isa!r})
from kernels.cpu.pack import pack_weight
from tests.kernels.cpu.calls import Heap, Inline, activations, multiplied, random_tensor, weight_of

digest = hashlib.sha256()
x = np.random.default_rng(1).standard_normal((41, 512)).astype(np.float32)
for quant in ("Q4_1", "Q6_K"):
    (part,) = pack_weight(weight_of(random_tensor(quant, 32, 512)), Heap(), Inline())
    rows, _ = activations(part, x)
    many = multiplied(part, rows)
    few = np.concatenate([multiplied(part, rows[r : r + 2]) for r in range(0, 40, 2)])
    assert (many[:40].view(np.uint32) == few.view(np.uint32)).all(), quant
    digest.update(many.tobytes())
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def of_this_host():
    return run_python(PRODUCTS.format(isa=kernel_cache.host_isa()))


@pytest.mark.parametrize(
    "isa", [isa for isa in kernel_cache.ISAS if isa not in ("ssse3", "generic")]
)
def test_same_bits(isa, of_this_host):
    """Wide and narrow tiles of a forced instruction set give what the host's best gives."""
    here = kernel_cache.host_isa()
    if kernel_cache.ISAS.index(isa) < kernel_cache.ISAS.index(here):
        pytest.skip(f"this host has no {isa}")
    assert run_python(PRODUCTS.format(isa=isa)) == of_this_host
