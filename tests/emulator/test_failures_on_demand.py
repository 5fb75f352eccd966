"""The k-th allocation, launch or copy fails when a test asks for it; a die breaks when a test says so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.bench import context, kernel, pycuda_driver
from tests.emulator.emulated_driver import ALLOCATION, COPY, LAUNCH

NOTHING = 'extern "C" __global__ void nothing() {}'


def test_the_nth_allocation_is_out_of_memory(emulated) -> None:
    with context():
        cuda = pycuda_driver()
        emulated.fail(ALLOCATION, 2)
        kept = cuda.mem_alloc(16)
        with pytest.raises(cuda.MemoryError):
            cuda.pagelocked_empty(4, np.float32)
        assert cuda.mem_alloc(16)
        assert kept
        assert emulated.count(ALLOCATION) == 3


def test_several_in_a_row_may_fail(emulated) -> None:
    """pycuda asks for a die's memory a second time: one failure alone never shows."""
    with context():
        cuda = pycuda_driver()
        emulated.fail(ALLOCATION, 1)
        assert cuda.mem_alloc(16)
        emulated.fail(ALLOCATION, 2, times=2)
        kept = cuda.mem_alloc(16)
        with pytest.raises(cuda.MemoryError):
            cuda.mem_alloc(16)
        assert cuda.mem_alloc(16)
        assert kept


def test_the_nth_launch_spoils_its_context_alone(emulated) -> None:
    cuda = pycuda_driver()
    with context(1):
        with context(0):
            emulated.fail(LAUNCH, 3)
            run = kernel(NOTHING, "nothing")
            run(block=(1, 1, 1))
            run(block=(1, 1, 1))
            with pytest.raises(cuda.Error, match="nothing was made to fail"):
                run(block=(1, 1, 1))
            with pytest.raises(cuda.Error):
                cuda.Context.synchronize()
        kernel(NOTHING, "nothing")(block=(1, 1, 1))
        cuda.Context.synchronize()


def test_the_nth_copy_fails(emulated) -> None:
    with context():
        cuda = pycuda_driver()
        x = cuda.mem_alloc(16)
        emulated.fail(COPY, 1)
        with pytest.raises(cuda.Error, match="this copy was made to fail"):
            cuda.memcpy_htod(x, np.zeros(4, np.float32))


def test_a_broken_die_loses_its_contexts_and_gets_no_more(emulated) -> None:
    cuda = pycuda_driver()
    with context(0):
        emulated.break_die(0)
        with pytest.raises(cuda.Error, match="ECC"):
            cuda.mem_alloc(16)
    with pytest.raises(cuda.Error, match="ECC"):
        cuda.Device(0).make_context()
    with context(1):
        assert cuda.mem_alloc(16)
