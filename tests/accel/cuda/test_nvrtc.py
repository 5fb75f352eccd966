"""NVIDIA's run-time compiler: images, refusals in its own words, and the reading of its log."""

from __future__ import annotations

import locale

import pytest

from accel.cuda import nvrtc

NEEDS_COMPILER = pytest.mark.skipif(
    nvrtc.wheel_folder("cuda_nvrtc", "lib") is None,
    reason="NVRTC is not installed; `make setup-cuda-emulated` changes that",
)
SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void scale(float *x, unsigned short by) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[31 - threadIdx.x] * __half2float(__ushort_as_half(by));
}
extern "C" __global__ void nothing() {}
"""


@NEEDS_COMPILER
def test_machine_code_for_a_k80() -> None:
    assert 37 in nvrtc.supported_archs()
    assert nvrtc.compile_source(SOURCE, "sm_37").image.startswith(b"\x7fELF")


@NEEDS_COMPILER
def test_ptx_for_a_later_one() -> None:
    assert b".target sm_90" in nvrtc.compile_source(SOURCE, "compute_90").image


@NEEDS_COMPILER
def test_what_an_entry_needs_is_in_the_log() -> None:
    found = nvrtc.resources(nvrtc.compile_source(SOURCE, "sm_37", ("-Xptxas=-v",)).log)
    assert found["scale"].shared_bytes == 32 * 4
    assert 0 < found["scale"].registers <= 32
    assert found["nothing"].shared_bytes == found["nothing"].spill_store_bytes == 0


def test_spills_are_read() -> None:
    log = (
        "ptxas info    : Compiling entry function 'wide' for 'sm_37'\n"
        "ptxas info    : Function properties for wide\n"
        "ptxas         .     16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n"
        "ptxas info    : Used 64 registers, 352 bytes cmem[0]\n"
    )
    assert nvrtc.resources(log) == {"wide": nvrtc.Resources(64, 16, 12, 20, 0)}


@NEEDS_COMPILER
def test_a_bad_kernel_is_refused_in_the_compilers_words() -> None:
    with pytest.raises(nvrtc.KernelRefused, match=r"kernel\.cu\(2\): error: .*undefined_name"):
        nvrtc.compile_source("\n__device__ int x = undefined_name;", "sm_37")


@NEEDS_COMPILER
def test_what_a_k80_lacks_is_refused() -> None:
    source = 'extern "C" __global__ void sum(double *x) { atomicAdd(x, x[1]); }'
    with pytest.raises(nvrtc.KernelRefused):
        nvrtc.compile_source(source, "sm_37")
    assert nvrtc.compile_source(source, "sm_90").image


@NEEDS_COMPILER
def test_the_locale_of_the_thread_is_kept():
    """Python would read files and pipes as ASCII from then on."""
    before = locale.getencoding()
    nvrtc.compile_source('extern "C" __global__ void nothing() {}', "sm_37")
    assert locale.getencoding() == before
