"""The builds behind emulated dies: kernels to host code, the driver, and pycuda's wheel."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from accel.cuda.nvrtc import KernelRefused
from tests.conftest import NO_EMULATOR, can_emulate
from tests.emulator import emulated_driver, host_compiler, pycuda_wheel
from tests.emulator.bench import context, kernel, pycuda_driver

NEEDS_COMPILER = pytest.mark.skipif(not can_emulate(), reason=NO_EMULATOR)


@NEEDS_COMPILER
def test_a_bad_kernel_is_refused_in_the_compilers_words() -> None:
    with pytest.raises(KernelRefused, match="undefined_name"):
        host_compiler.compile_for_host("__device__ int x = undefined_name;")


@NEEDS_COMPILER
@pytest.mark.parametrize("old_form", ["__shfl_xor(v, 1)", "__ballot(1)", "__any(1)"])
def test_warp_operations_without_a_mask_are_refused(old_form: str) -> None:
    """They are gone from later architectures, and one source serves all."""
    source = f'extern "C" __global__ void old(float *y) {{ float v = 1; y[0] = {old_form}; }}'
    with pytest.raises(KernelRefused, match="was not declared"):
        host_compiler.compile_for_host(source)


def test_all_dynamic_shared_arrays_are_one_memory(emulated) -> None:
    source = """
    extern __shared__ float first[];
    extern __shared__ unsigned second[];
    extern "C" __global__ void both(unsigned *y) { first[0] = 1; y[0] = second[0]; }"""
    with context():
        cuda = pycuda_driver()
        y = cuda.mem_alloc(4)
        kernel(source, "both")(y, block=(1, 1, 1), shared=4)
        assert cuda.from_device(y, 1, np.uint32)[0] == np.float32(1).view(np.uint32)


@NEEDS_COMPILER
def test_the_driver_is_built_once() -> None:
    built = emulated_driver.library()
    before = built.stat().st_mtime_ns
    assert emulated_driver.library() == built
    assert built.stat().st_mtime_ns == before


def test_a_built_wheel_is_taken_again(tmp_path) -> None:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    built = tmp_path / f"pycuda-2026.1-{python}-{python}-linux_x86_64.whl"
    built.touch()
    assert pycuda_wheel.wheel(tmp_path) == built


def test_without_nvidias_headers_nothing_is_built() -> None:
    with pytest.raises(emulated_driver.BuildFailed, match=r"wheel nvidia-cuda-nothing-cu11"):
        emulated_driver.cuda_include("cuda_nothing", "cuda.h")
