"""Machine code comes out of the cache without the rules that numba compiles with."""

from __future__ import annotations

import pytest

from accel.cpu.backend import CpuBackend
from tests.accel.cpu.models import Attention, attention_program, limits, silent
from tests.kernels.cpu.subprocesses import run_python

LOAD = """
import sys
from accel.cpu.backend import CpuBackend, kernel_cache_misses
from tests.accel.cpu.models import Attention, attention_program, limits, run_prompt, silent
wanted = limits(64, num_slots=2)
executor = CpuBackend().compile(attention_program(Attention()), wanted, silent)
run_prompt(executor, range(40), wanted, 9)
"""


@pytest.fixture(autouse=True)
def kernels_in_the_cache():
    CpuBackend().compile(attention_program(Attention()), limits(64, num_slots=2), silent).close()


def test_a_warm_start_leaves_the_rules_alone():
    """And runs: some of their modules would be there otherwise."""
    code = LOAD + "print(kernel_cache_misses(), 'numba.np.linalg' in sys.modules)"
    assert run_python(code) == "0 False"


def test_the_first_function_that_is_compiled_gathers_them():
    code = (
        LOAD
        + """
import numba
import numpy as np
total = numba.njit(lambda values: np.sort(values)[0] + values.sum())
print(total(np.array([4.0, 3.0])), 'numba.np.linalg' in sys.modules)
"""
    )
    assert run_python(code) == "10.0 True"
