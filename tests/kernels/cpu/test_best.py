"""The op that finds the likeliest tokens agrees with NumPy's argmax, on every instruction set."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.cpu import kernel_cache
from kernels.cpu.best import FOUND_BYTES
from tests.kernels.cpu.calls import aligned, call
from tests.kernels.cpu.subprocesses import run_python

FOUND = np.dtype([("peak", "f4"), ("id", "i4")])
FORCED = """
from kernels.cpu import kernel_cache
kernel_cache.configure(isa={isa!r})
from tests.kernels.cpu import test_best
test_best.check_everywhere(5000, 3)
test_best.test_a_row_with_nan()
"""


def best_of(logits, threads=1):
    """Largest value and its id, of rows that lie as an executor's do. Shapes: (N, V) -> (N,) FOUND."""
    num_rows, width = logits.shape
    padded = np.full((num_rows, -(-width // 16) * 16), math.inf, np.float32)  # not to be looked at
    padded[:, :width] = logits
    found, out = aligned(num_rows * threads * FOUND_BYTES), aligned(num_rows * FOUND_BYTES)
    counter = np.zeros(1, np.int32)
    columns = {
        "K": width,
        "IN": padded.ctypes.data,
        "IN_STRIDE": padded.strides[0],
        "PARTIALS": found.ctypes.data,
        "OUT": out.ctypes.data,
        "CLAIMED": counter.ctypes.data,
    }
    call("find_best", columns, num_rows, threads=threads)
    return out.view(FOUND)


def check(logits, threads=1):
    found, ids = best_of(logits, threads), logits.argmax(axis=1)
    assert found["id"].tolist() == ids.tolist()
    assert found["peak"].tolist() == logits[np.arange(len(logits)), ids].tolist()


def check_everywhere(width, threads):
    """A peak at each end of what a vector, a block or a thread looks at."""
    edges = [0, 1, 15, 16, 31, 32, 1023, 1024, 1025, width // threads, width - 2, width - 1]
    at = sorted({place for place in edges if place < width})
    logits = np.random.default_rng(0).uniform(-9, 1, (len(at), width)).astype(np.float32)
    logits[np.arange(len(at)), at] = 2
    check(logits, threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("width", [1, 5, 16, 33, 72, 1024, 3011])
def test_a_peak_anywhere(width, threads):
    """Also in rows shorter than a vector, of which some threads have no part."""
    check_everywhere(width, threads)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_lowest_id_of_equal_ones(threads):
    """Few different values, each very often; and all alike."""
    rng = np.random.default_rng(1)
    check(rng.integers(-3, 3, (9, 4001)).astype(np.float32), threads)
    check(np.full((2, 4001), -1.5, np.float32), threads)


def test_zeros_of_both_signs_are_equal():
    """Whichever comes first is the best."""
    check(np.array([[-1, -0.0, 0.0], [-1, 0.0, -0.0]], np.float32).repeat(16, axis=1), 2)


@pytest.mark.parametrize("threads", [1, 3])
def test_infinities(threads):
    """They are values like others, also where nothing else is."""
    logits = np.full((3, 2050), -math.inf, np.float32)
    logits[1, 2049], logits[2, 1030] = -7, math.inf
    check(logits, threads)


def test_a_row_with_nan():
    """Wherever it is, and whatever else is in the row; other rows are as without it."""
    for threads in (1, 3):
        for at in (0, 17, 31, 1023, 1500, 2049):
            logits = np.random.default_rng(2).standard_normal((3, 2050)).astype(np.float32)
            logits[1, at] = math.nan
            logits[1, 2] = math.inf
            found = best_of(logits, threads)
            assert np.isnan(found["peak"]).tolist() == [False, True, False]
            assert found["id"][::2].tolist() == logits[::2].argmax(axis=1).tolist()


@pytest.mark.parametrize(
    "isa",
    [
        isa if isa == "avx2" else pytest.param(isa, marks=pytest.mark.slow)
        for isa in kernel_cache.ISAS
        if isa != "amx"
    ],
)
def test_forced(isa):
    """On this host, where it has the instructions."""
    here = kernel_cache.host_isa()
    if kernel_cache.ISAS.index(isa) < kernel_cache.ISAS.index(here):
        pytest.skip(f"this host has no {isa}")
    run_python(FORCED.format(isa=isa))
