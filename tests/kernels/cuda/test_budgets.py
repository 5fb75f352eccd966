"""Every kernel compiles for a K80 and for a later GPU, spills nothing, and keeps within what it declares."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from accel.cuda import images, nvrtc
from kernels.cuda.catalogue import CATALOGUE, Kernel

K80, LATER = "sm_37", "sm_90"
# GK210, CUDA C++ programming guide, table of technical specifications for compute capability 3.7.
MAX_SHARED_BYTES = 48 << 10
MAX_REGISTERS = 255

Unit = tuple[str, tuple[tuple[str, str], ...]]  # what is compiled at once: source and defines


def unit_of(kernel: Kernel) -> Unit:
    return kernel.source, kernel.defines


def needed(job: tuple[str, Unit]) -> dict[str, nvrtc.Resources]:
    arch, (source, defines) = job
    return images.resources_of(source, arch, dict(defines))


@pytest.fixture(scope="module")
def resources() -> dict[tuple[str, Unit], dict[str, nvrtc.Resources]]:
    """What every image of the catalogue needs, by architecture; compiled by all cores."""
    try:
        nvrtc.version()
    except nvrtc.NoCompiler as error:
        pytest.skip(f"NVRTC is not installed; `make setup-cuda-emulated` changes that ({error})")
    jobs = [
        (arch, unit) for unit in dict.fromkeys(map(unit_of, CATALOGUE)) for arch in (K80, LATER)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(jobs, pool.map(needed, jobs), strict=True))


@pytest.mark.parametrize("arch", [K80, LATER])
@pytest.mark.parametrize("kernel", CATALOGUE, ids=lambda kernel: kernel.name)
def test_a_kernel_spills_nothing_and_shares_what_it_says(resources, kernel, arch) -> None:
    needs = resources[arch, unit_of(kernel)][kernel.entry]
    assert (needs.spill_store_bytes, needs.spill_load_bytes) == (0, 0)
    assert needs.shared_bytes == kernel.static_shared_bytes
    assert needs.shared_bytes <= MAX_SHARED_BYTES


@pytest.mark.parametrize("kernel", CATALOGUE, ids=lambda kernel: kernel.name)
def test_a_kernel_keeps_within_its_registers_on_a_k80(resources, kernel) -> None:
    needs = resources[K80, unit_of(kernel)][kernel.entry]
    assert needs.registers <= min(kernel.max_registers, MAX_REGISTERS)


def test_kernels_have_names_of_their_own() -> None:
    names = [kernel.name for kernel in CATALOGUE]
    assert len(set(names)) == len(names)
