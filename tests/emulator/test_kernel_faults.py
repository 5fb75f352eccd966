"""What a GPU leaves undefined ends an emulated launch with a message that names it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.bench import context, kernel, pycuda_driver

FAULTY = """
extern "C" __global__ void different_barriers(float *y) {
    if (threadIdx.x < 16) { y[0] = 1; __syncthreads(); }
    else {
        y[1] = 2; __syncthreads();
    }
}
extern "C" __global__ void lanes_that_left(float *y) {
    if (threadIdx.x >= 20) return;
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, y[threadIdx.x], 1);
}
extern "C" __global__ void lanes_elsewhere(float *y) {
    float v = 1;
    if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);
    __syncthreads();
    y[threadIdx.x] = v;
}
extern "C" __global__ void mask_without_me(float *y) {
    y[threadIdx.x] = __shfl_xor_sync(0xffffu, y[threadIdx.x], 1);
}
extern "C" __global__ void misaligned(float *y) { y[0] = *(const float *)((const char *)y + 2); }
extern "C" __global__ void past_shared_array(float *y) {
    __shared__ float s[8];
    s[threadIdx.x] = y[threadIdx.x];
    y[threadIdx.x] = s[7];
}
extern "C" __global__ void past_dynamic_shared(float *y) {
    extern __shared__ float s[];
    s[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = s[0];
}
extern "C" __global__ void far_past_memory(float *y) { y[threadIdx.x + 5000] = 1; }
extern "C" __global__ void too_much_stack(float *y) {
    float many[40000];
    for (int i = 0; i < 40000; i++) many[i] = y[i & 7];
    y[0] = many[(int)y[1]];
}
extern "C" __global__ void divides_by_zero(int *y) { y[0] = 7 / y[1] + y[2] % y[1]; }
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("different_barriers", "different __syncthreads(), lines 3 and 5"),
        ("lanes_that_left", r"waits for lanes (mask 0xffffffff) that do not come"),
        ("lanes_elsewhere", "that do not come"),
        ("mask_without_me", "does not name it"),
        ("misaligned", "misaligned"),
        ("past_shared_array", "an index lies outside its array"),
        ("past_dynamic_shared", "dynamic shared memory was written past its 64 bytes"),
        ("far_past_memory", "illegal memory access"),
        ("too_much_stack", "illegal memory access"),
        ("divides_by_zero", "divided an integer by zero"),
    ],
)
def test_a_fault_is_named(emulated, name: str, words: str) -> None:
    with context():
        cuda = pycuda_driver()
        y = cuda.to_device(np.zeros(64, np.float32))
        with pytest.raises(cuda.Error) as raised:
            kernel(FAULTY, name)(y, block=(32, 1, 1), shared=64)
        assert name in str(raised.value)
        assert words in str(raised.value)


def test_a_fault_spoils_its_context_and_no_other(emulated) -> None:
    """As on a GPU: every later call of that context fails, and its memory comes back with its end."""
    cuda = pycuda_driver()
    with context():
        y = cuda.to_device(np.zeros(64, np.float32))
        with pytest.raises(cuda.Error):
            kernel(FAULTY, "far_past_memory")(y, block=(32, 1, 1))
        with pytest.raises(cuda.Error, match="illegal memory access"):
            cuda.mem_alloc(16)
        assert emulated.used_bytes(0) == 512
    assert emulated.used_bytes(0) == 0
    with context():
        assert cuda.mem_alloc(16)


def test_shared_memory_of_an_earlier_block_cannot_be_read(emulated) -> None:
    source = """
    extern "C" __global__ void leaves_something(float *y) {
        __shared__ float kept;
        if (blockIdx.x == 0) kept = 5;
        else y[blockIdx.x] = kept;
    }"""
    with context():
        cuda = pycuda_driver()
        y = cuda.to_device(np.zeros(4, np.float32))
        kernel(source, "leaves_something")(y, block=(1, 1, 1), grid=(4, 1))
        assert np.isnan(cuda.from_device(y, 4, np.float32)[1:]).all()


def test_a_missing_barrier_shows(emulated) -> None:
    source = """
    extern "C" __global__ void reverse(const float *x, float *y) {
        __shared__ float s[64];
        s[threadIdx.x] = x[threadIdx.x];
        y[threadIdx.x] = s[63 - threadIdx.x];
    }"""
    x = np.arange(64, dtype=np.float32)
    with context():
        cuda = pycuda_driver()
        y = cuda.mem_alloc(x.nbytes)
        kernel(source, "reverse")(cuda.In(x), y, block=(64, 1, 1))
        assert not np.array_equal(cuda.from_device(y, 64, np.float32), x[::-1])


@pytest.mark.parametrize(
    "launch",
    [
        {"block": (1025, 1, 1)},
        {"block": (1, 1, 65)},
        {"block": (32, 1, 1), "shared": (48 << 10) + 1},
        {"block": (32, 1, 1), "grid": (1, 65536)},
    ],
    ids=str,
)
def test_a_launch_that_no_k80_takes_is_refused(emulated, launch: dict) -> None:
    with context():
        cuda = pycuda_driver()
        with pytest.raises(cuda.LogicError, match="invalid argument"):
            kernel(FAULTY, "misaligned")(cuda.mem_alloc(256), **launch)


def test_wrong_arguments_are_refused(emulated) -> None:
    with context():
        cuda = pycuda_driver()
        with pytest.raises(cuda.Error, match="its arguments take 8 bytes; 16 were given"):
            kernel(FAULTY, "misaligned")(cuda.mem_alloc(256), np.int64(1), block=(1, 1, 1))
