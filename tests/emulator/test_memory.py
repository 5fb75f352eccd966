"""Memory of emulated dies: exact accounts, undefined contents, nothing past the end or after the release."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tests.emulator.bench import context, kernel, pycuda_driver

WRITE_AT = 'extern "C" __global__ void write_at(float *y, int i) { y[i] = 1; }'


def test_bytes_are_counted_per_die(emulated) -> None:
    emulated.reset(num_dies=2, memory_bytes=1 << 20)
    cuda = pycuda_driver()
    with context(0):
        memory = cuda.mem_alloc(1000)
        assert cuda.mem_get_info() == ((1 << 20) - 1024, 1 << 20)
        with context(1):
            assert cuda.mem_get_info() == (1 << 20, 1 << 20)
        memory.free()
        assert cuda.mem_get_info()[0] == 1 << 20


def test_what_another_process_holds_is_not_free(emulated) -> None:
    emulated.reset(num_dies=1, memory_bytes=1 << 20)
    emulated.set_external_bytes(0, 1 << 19)
    cuda = pycuda_driver()
    with context():
        assert cuda.mem_get_info()[0] == 1 << 19
        with pytest.raises(cuda.MemoryError):
            cuda.mem_alloc((1 << 19) + 1)


def test_a_context_takes_its_bytes_and_gives_them_back(emulated) -> None:
    emulated.reset(num_dies=1, memory_bytes=1 << 20, context_bytes=1 << 18)
    with context():
        assert emulated.used_bytes(0) == 1 << 18
    assert emulated.used_bytes(0) == emulated.num_contexts() == 0


def test_poisoned_memory_starts_as_nan(emulated) -> None:
    emulated.reset(num_dies=1, poison=True)
    with context():
        cuda = pycuda_driver()
        assert np.isnan(cuda.from_device(cuda.mem_alloc(64), 16, np.float32)).all()


def test_a_write_just_past_the_end_is_found(emulated) -> None:
    """Alignment leaves some bytes up to the unreadable page; they are watched."""
    with context():
        cuda = pycuda_driver()
        y = cuda.mem_alloc(100)
        write = kernel(WRITE_AT, "write_at")
        write(y, np.int32(24), block=(1, 1, 1))
        assert emulated.num_written_past_end() == 0
        write(y, np.int32(25), block=(1, 1, 1))
        assert emulated.num_written_past_end() == 1
        y.free()
        assert emulated.num_written_past_end() == 1
    emulated.reset()  # else the fixture complains


def test_memory_given_back_cannot_be_used(emulated) -> None:
    with context():
        cuda = pycuda_driver()
        memory = cuda.mem_alloc(256)
        address = int(memory)
        memory.free()
        with pytest.raises(cuda.LogicError, match="lie in no allocation"):
            cuda.memcpy_htod(address, np.zeros(4, np.float32))
        with pytest.raises(cuda.Error, match="illegal memory access"):
            kernel(WRITE_AT, "write_at")(np.intp(address), np.int32(0), block=(1, 1, 1))


def test_a_copy_past_the_end_is_refused(emulated) -> None:
    with context():
        cuda = pycuda_driver()
        with pytest.raises(cuda.LogicError, match=r"20 bytes at .* lie in no allocation"):
            cuda.memcpy_htod(cuda.mem_alloc(16), np.zeros(5, np.float32))


def test_a_late_release_takes_nothing_from_a_new_machine(emulated) -> None:
    """Objects of a failed test may be collected during the next one."""
    cuda = pycuda_driver()
    left = cuda.Device(0).make_context()
    memory = cuda.mem_alloc(256)
    left.pop()
    emulated.reset(num_dies=1)
    with context():
        kept = cuda.mem_alloc(256)
        used = emulated.used_bytes(0)
        del memory, left
        gc.collect()
        assert emulated.used_bytes(0) == used
        kept.free()


def test_variables_of_a_module_are_those_of_its_die(emulated) -> None:
    """Also those of templates, which a linker would merge over all libraries of a process."""
    source = """
    template <int n> struct Counter { static int value; };
    template <int n> int Counter<n>::value;
    __device__ int plain;
    extern "C" __global__ void count(int *y) {
        y[0] = ++plain;
        y[1] = ++Counter<1>::value;
    }"""
    cuda = pycuda_driver()
    for die in (0, 1):
        with context(die):
            y = cuda.mem_alloc(8)
            kernel(source, "count")(y, block=(1, 1, 1))
            assert cuda.from_device(y, 2, np.int32).tolist() == [1, 1]
