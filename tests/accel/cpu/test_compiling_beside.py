"""A second process compiles part of the kernels into the cache; whatever it fails to do is done here."""

from __future__ import annotations

import pytest

from accel.cpu.compiling_beside import halves
from accel.host import num_cores
from tests.kernels.cpu.subprocesses import run_python

# Kernels that compile fast, taken for slow ones. Prints how many this process compiled.
COMPILE = """
import sys
from pathlib import Path
from kernels.cpu import kernel_cache
kernel_cache.configure(Path({folder!r}))
from accel.cpu import compiling, compiling_beside
compiling_beside._OTHERS_S = 10.0
sys.executable = {executable!r} or sys.executable
names = ("add", "copy_rows", "quantise", "softcap")
shares = []
compiling.compile_kernels(names, shares.append)
assert shares == sorted(shares), shares
assert all(compiling.kernel_address(name) for name in names)
print(sum(not compiling._compiled[name].cache_hits for name in names))
"""


def test_halves_take_as_long():
    here, beside = halves(["add", "attention", "gate", "matmul_q4_1", "matmul_q8_0", "quantise"])
    assert here == ["attention"]
    assert beside == ["matmul_q4_1", "matmul_q8_0", "add", "gate", "quantise"]


def test_little_is_not_worth_a_process():
    assert halves(["add", "gate", "quantise"]) == (["add", "gate", "quantise"], [])
    assert halves(["attention"]) == (["attention"], [])
    assert halves([]) == ([], [])


@pytest.mark.skipif(num_cores() < 2, reason="this host has one core")
def test_half_is_compiled_beside(tmp_path):
    code = COMPILE.format(folder=str(tmp_path), executable="")
    assert run_python(code) == "2"
    assert run_python(code) == "0"  # a warm cache: neither process compiles


@pytest.mark.skipif(num_cores() < 2, reason="this host has one core")
def test_all_is_compiled_here_where_the_other_process_fails(tmp_path):
    assert run_python(COMPILE.format(folder=str(tmp_path), executable="/bin/false")) == "4"
