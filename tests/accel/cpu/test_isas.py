"""Attention compiled for every instruction set computes the same, but for the rounding of fused steps."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cpu.backend import CpuBackend
from kernels.cpu import kernel_cache
from tests.accel.cpu.models import Attention, attention_program, limits, run_prompt, silent
from tests.kernels.cpu.subprocesses import run_python
from tests.kernels.cpu.test_dots import runs_here

SPEC = Attention(9, 3, 48, window=270, bias=True, norm=True)
LIMITS = limits(300, num_slots=1)
TOKENS = np.random.default_rng(0).integers(0, 72, 290)
RUN = """
import numpy as np
from accel.cpu.backend import CpuBackend
from tests.accel.cpu import test_isas
np.save({path!r}, test_isas.logits(CpuBackend(isa={isa!r})))
"""


def logits(backend):
    """Chunks of a prompt, then single rows."""
    executor = backend.compile(attention_program(SPEC), LIMITS, silent)
    prompt = run_prompt(executor, TOKENS[:280], LIMITS, 64)
    rows = run_prompt(executor, TOKENS[280:], LIMITS, 1, start=280)
    executor.close()
    return np.concatenate([prompt, rows])


# One in every run of the tests; compiling for each takes half a minute the first time.
@pytest.mark.parametrize(
    "isa",
    [
        isa if isa == "avx2" else pytest.param(isa, marks=pytest.mark.slow)
        for isa in kernel_cache.ISAS
    ],
)
def test_forced(isa, tmp_path):
    """On this host, where it has the instructions."""
    if not runs_here(isa):
        pytest.skip(f"this host has no {isa}")
    path = str(tmp_path / "logits.npy")
    run_python(RUN.format(path=path, isa=isa))
    np.testing.assert_allclose(np.load(path), logits(CpuBackend()), atol=1e-3)
