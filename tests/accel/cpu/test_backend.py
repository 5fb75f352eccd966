"""Compiling: what it reports, what it measures, and that nothing is left for the first request."""

from __future__ import annotations

import itertools
import mmap
from pathlib import Path

import numpy as np
import pytest

from accel.backend import RankingExecutor, run_step
from accel.cpu.attention_lowering import page_bytes
from accel.cpu.backend import CpuBackend, kernel_cache_misses
from accel.cpu.memory import Arena, touched
from accel.errors import OutOfMemory, UnsupportedProgram
from kernels.cpu import kernel_cache
from tests.accel.cpu.models import (
    VOCAB_SIZE,
    Attention,
    attention_program,
    batch,
    limits,
    run_prompt,
    shuffled_pages,
    silent,
)
from tests.kernels.cpu.subprocesses import run_python

LIMITS = limits(64, num_slots=2)


@pytest.fixture
def executor():
    made = CpuBackend().compile(attention_program(Attention()), LIMITS, silent)
    yield made
    made.close()


def test_importing_the_backend_imports_no_numba():
    """A process that never compiles never pays for numba."""
    code = "import sys, accel.cpu.backend; print('numba' in sys.modules)"
    assert run_python(code) == "False"


def test_progress_goes_through_both_phases():
    """Shares rise from 0 to 1, in packing and in getting kernels, from the cache or compiled."""
    packing, kernels = [], []
    phases = {
        "packing weights": packing,
        "loading kernels": kernels,
        "compiling kernels": kernels,
    }
    CpuBackend().compile(
        attention_program(Attention()),
        LIMITS,
        lambda phase, share: phases[phase].append(share),
    ).close()
    for shares in (packing, kernels):
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_nothing_is_compiled_after_compile(executor):
    """Steps of every kind find their kernels ready."""
    before = kernel_cache_misses()
    for chunk_len in (1, 9, 40):
        run_prompt(executor, np.arange(40), LIMITS, chunk_len)
    assert kernel_cache_misses() == before


def test_a_second_process_compiles_nothing(executor):
    """What one process compiled the next one loads, and says so."""
    code = """
from accel.cpu.backend import CpuBackend, kernel_cache_misses
from tests.accel.cpu.models import Attention, attention_program, limits
phases = set()
program, wanted = attention_program(Attention()), limits(64, num_slots=2)
CpuBackend().compile(program, wanted, lambda phase, share: phases.add(phase)).close()
print(kernel_cache_misses(), *sorted(phases), sep=", ")
"""
    assert run_python(code) == "0, loading kernels, packing weights"


def test_memory(executor):
    """Pages are counted exactly; weights in whole groups of rows."""
    shape = attention_program(Attention()).kv_layers[0]
    assert page_bytes(shape, "f16") == 2 * 2 * 2 * 32 * 32
    assert executor.memory.kv_bytes == LIMITS.num_pages * page_bytes(shape, "f16")
    rows = 80 + 256 + 32 + 80  # embedding, stacked q k v, output of attention, logits
    ks = 80 * 32 + 256 * 32 + 32 * 128 + 80 * 32
    assert rows == 448
    assert executor.memory.weight_bytes == 4 * ks


def test_logits_of_the_rows_that_want_them(executor):
    """Any rows, in order; none at all gives an empty result."""
    table = shuffled_pages(LIMITS)
    ids, positions, slots = np.arange(12), np.arange(12), np.zeros(12)
    every = run_step(executor, batch(ids, positions, slots, np.arange(12), table)).copy()
    assert every.shape == (12, VOCAB_SIZE)
    some = run_step(executor, batch(ids, positions, slots, [2, 7, 11], table)).copy()
    np.testing.assert_array_equal(some, every[[2, 7, 11]])
    assert run_step(executor, batch(ids, positions, slots, [], table)).shape == (0, VOCAB_SIZE)


@pytest.mark.parametrize("num_rows", [1, 3, 12])
def test_best_is_what_the_logits_say(executor, num_rows):
    """Of as many rows as want logits, narrow step or wide; the largest value and where it is."""
    assert isinstance(executor, RankingExecutor)
    table = shuffled_pages(LIMITS)
    ids = np.random.default_rng(num_rows).integers(0, VOCAB_SIZE, num_rows)
    for wanted in (np.arange(num_rows), [num_rows - 1], []):
        step = batch(ids, np.arange(num_rows), np.zeros(num_rows), wanted, table)
        logits = run_step(executor, step)
        at = logits.argmax(axis=1)
        peaks = logits[np.arange(len(wanted)), at]
        assert executor.best() == list(zip(peaks.tolist(), at.tolist(), strict=True))


def test_a_batch_is_read_where_it_lies(executor):
    """New numbers in the same arrays are a new step, and another batch is read from its own arrays."""
    table = shuffled_pages(LIMITS)
    first, other = (batch([token], [0], [0], [0], table) for token in (5, 9))
    of_five, of_nine = (run_step(executor, step).copy() for step in (first, other))
    first.tokens[0] = 9
    np.testing.assert_array_equal(run_step(executor, first), of_nine)
    first.tokens[0] = 5
    np.testing.assert_array_equal(run_step(executor, first), of_five)


def test_one_instruction_set_a_process():
    """A second backend may not choose another one; the refusal says so."""
    oldest_first = reversed(kernel_cache.ISAS)  # every host has the older ones
    other = next(isa for isa in oldest_first if isa != kernel_cache.configure().isa)
    with pytest.raises(UnsupportedProgram, match="start another process"):
        CpuBackend(isa=other).compile(attention_program(Attention()), LIMITS, silent)


def test_memory_that_cannot_be_had():
    """The refusal names what it was for and how much."""
    with pytest.raises(OutOfMemory) as caught:
        Arena("weights").take(1 << 60)
    assert caught.value.what == "weights"
    assert caught.value.wanted_bytes == 1 << 60


def test_arena():
    """Pieces are zeroed, apart, on cache lines, and counted."""
    arena = Arena("test")
    pieces = [arena.take(n) for n in (1, 100, 64 << 20, 7)]
    for piece in pieces:
        assert piece.ctypes.data % 64 == 0
        assert not piece[:: 1 << 12].any()
    starts = sorted((p.ctypes.data, p.ctypes.data + len(p)) for p in pieces)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(starts))
    assert arena.taken_bytes == 64 + 128 + (64 << 20) + 64


def test_touched():
    """Every page of the host's memory is there at the end of the block, and still zero."""
    piece = Arena("test").take(64 << 20)
    before = resident_bytes()
    with touched([piece[: 40 << 20], piece[40 << 20 :]], 2):
        pass
    assert resident_bytes() - before > 60 << 20
    assert not piece[:: 1 << 12].any()


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
