"""What kernels call computes what a GPU would, checked against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.bench import context, image, kernel, pycuda_driver

LANES = np.arange(32)
SHUFFLES = """
extern "C" __global__ void shuffles(float *y, int by, int width) {
    int lane = threadIdx.x, full = 0xffffffff;
    float v = lane;
    y[lane] = __shfl_sync(full, v, by, width);
    y[32 + lane] = __shfl_up_sync(full, v, by, width);
    y[64 + lane] = __shfl_down_sync(full, v, by, width);
    y[96 + lane] = __shfl_xor_sync(full, v, by, width);
}
"""


@pytest.mark.parametrize("width", [32, 16, 8])
@pytest.mark.parametrize("by", [1, 3, 7])
def test_shuffles(emulated, by: int, width: int) -> None:
    first = LANES // width * width
    expected = [
        first + by % width,
        np.where(LANES - by >= first, LANES - by, LANES),
        np.where(LANES + by < first + width, LANES + by, LANES),
        np.where(LANES ^ by < first + width, LANES ^ by, LANES),
    ]
    with context():
        cuda = pycuda_driver()
        y = cuda.mem_alloc(4 * 128)
        kernel(SHUFFLES, "shuffles")(y, np.int32(by), np.int32(width), block=(32, 1, 1))
        assert np.array_equal(cuda.from_device(y, (4, 32), np.float32), expected)


def test_votes_and_warps_that_differ(emulated) -> None:
    """Two halves of a warp vote apart, in masks of their own; a second warp takes no part."""
    source = """
    extern "C" __global__ void votes(unsigned *y) {
        unsigned t = threadIdx.x, mask = t < 16 ? 0xffffu : 0xffff0000u;
        if (t >= 32) return;
        if (t < 16) y[t] = __ballot_sync(mask, t & 1);
        else y[t] = __any_sync(mask, t == 20) + 2 * __all_sync(mask, t > 15) + 4 * __all_sync(mask, t > 16);
        __syncwarp();
    }"""
    with context():
        cuda = pycuda_driver()
        y = cuda.mem_alloc(4 * 32)
        kernel(source, "votes")(y, block=(64, 1, 1))
        assert cuda.from_device(y, 32, np.uint32).tolist() == [0xAAAA] * 16 + [3] * 16


def test_bytes_are_picked_as_prmt_does(emulated) -> None:
    """The examples follow PTX ISA's table of prmt: a digit names a byte, its high bit spreads the sign."""
    source = """
    extern "C" __global__ void pick(unsigned *y) {
        y[0] = __byte_perm(0x33221100u, 0x77665544u, 0x7410u);
        y[1] = __byte_perm(0x33221100u, 0x77665544u, 0x0123u);
        y[2] = __byte_perm(0x000000f0u, 0, 0x4408u);
    }"""
    with context():
        cuda = pycuda_driver()
        y = cuda.mem_alloc(12)
        kernel(source, "pick")(y, block=(1, 1, 1))
        expected = [0x77441100, 0x00112233, 0x0000F0FF]
        assert cuda.from_device(y, 3, np.uint32).tolist() == expected


HALVES = """
#include <cuda_fp16.h>
extern "C" __global__ void widen(const unsigned short *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __half2float(__ushort_as_half(x[i]));
}
extern "C" __global__ void narrow(const float *x, unsigned short *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __half_as_ushort(__float2half_rn(x[i]));
}
"""


@pytest.mark.parametrize("own_instruction", [True, False])
def test_half_floats_convert_as_numpy_does(emulated, own_instruction: bool) -> None:
    """Every half; floats around and halfway between halves. With the host's instruction and without."""
    source = HALVES if own_instruction else "#undef __F16C__\n" + HALVES
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = every.view(np.float16).astype(np.float32)
    finite = wide[np.isfinite(wide)]
    with context():
        cuda = pycuda_driver()
        widened = np.empty_like(wide)
        kernel(source, "widen")(cuda.In(every), cuda.Out(widened), block=(256, 1, 1), grid=(256, 1))
        assert np.array_equal(widened, wide, equal_nan=True)
        narrow = kernel(source, "narrow")
        after = np.nextafter(finite, np.float32(np.inf))
        for x in (finite, after, (finite + np.roll(finite, -1)) / 2, finite * np.float32(1.0003)):
            narrowed = np.empty(len(x), np.float16)
            narrow(cuda.In(x), cuda.Out(narrowed), block=(256, 1, 1), grid=(len(x) // 256, 1))
            with np.errstate(over="ignore"):
                assert np.array_equal(narrowed, x.astype(np.float16))


def test_atomics_count_over_all_blocks(emulated) -> None:
    source = """
    extern "C" __global__ void count(int *sum, int *largest) {
        atomicAdd(sum, 1);
        atomicMax(largest, int(blockIdx.x * blockDim.x + threadIdx.x));
    }"""
    with context():
        cuda = pycuda_driver()
        y = cuda.to_device(np.zeros(2, np.int32))
        kernel(source, "count")(y, np.intp(int(y) + 4), block=(50, 1, 1), grid=(7, 1))
        assert cuda.from_device(y, 2, np.int32).tolist() == [350, 349]


def test_kernels_made_by_macros_are_found(emulated) -> None:
    source = """
    #define MAKE(name, value) extern "C" __global__ void __launch_bounds__(32) name(int *y) { y[0] = value; }
    MAKE(one, 1) MAKE(two, 2)
    """
    assert b"emulated_launch_one" in image(source)
    assert b"emulated_launch_two" in image(source)
