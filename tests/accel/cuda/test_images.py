"""A kernel's image: which form an architecture gets, and when it comes from the cache."""

from __future__ import annotations

import pytest

from accel.cuda import emulation, images, nvrtc
from accel.cuda.driver import HOST_ARCH

SOURCE = 'extern "C" __global__ void put(int *y) { y[0] = VALUE; }'


@pytest.fixture
def compilations(monkeypatch, tmp_path):
    """What has been compiled; images say what they are of. The cache is empty."""
    done = []

    def on_host(source, names):
        done.append(HOST_ARCH)
        return f"host {names}".encode()

    def for_die(source, target, options):
        done.append(target)
        return nvrtc.Compiled(f"{target} {options}".encode(), f"log of {target}")

    monkeypatch.setattr(images, "_cache_dir", tmp_path)
    monkeypatch.setattr(nvrtc, "version", lambda: "11.8")
    monkeypatch.setattr(nvrtc, "supported_archs", lambda: (35, 37, 50, 52, 86, 89, 90))
    monkeypatch.setattr(nvrtc, "compile_source", for_die)
    monkeypatch.setattr(emulation, "compiler_id", lambda: "g++")
    monkeypatch.setattr(emulation, "compile_for_host", on_host)
    return done


def test_an_image_is_compiled_once(compilations) -> None:
    first = images.load_image(SOURCE, "sm_37", {"VALUE": "1"})
    assert images.load_image(SOURCE, "sm_37", {"VALUE": "1"}) == first
    assert b"-DVALUE=1" in first
    assert compilations == ["sm_37"]


@pytest.mark.parametrize(
    "other",
    [
        (SOURCE, "sm_37", {"VALUE": "2"}),
        (SOURCE + "\n", "sm_37", {"VALUE": "1"}),
        (SOURCE, "sm_90", {"VALUE": "1"}),
        (SOURCE, HOST_ARCH, {"VALUE": "1"}),
    ],
    ids=["defines", "source", "arch", "host"],
)
def test_whatever_differs_is_compiled_again(compilations, other) -> None:
    images.load_image(SOURCE, "sm_37", {"VALUE": "1"})
    images.load_image(*other)
    assert len(compilations) == 2


def test_another_compiler_compiles_again(compilations, monkeypatch) -> None:
    images.load_image(SOURCE, HOST_ARCH, {"VALUE": "1"})
    monkeypatch.setattr(emulation, "compiler_id", lambda: "another g++")
    images.load_image(SOURCE, HOST_ARCH, {"VALUE": "1"})
    assert len(compilations) == 2


@pytest.mark.parametrize(
    ("arch", "target"),
    [
        ("sm_37", "sm_37"),
        ("sm_90", "sm_90"),
        ("sm_87", "sm_86"),  # machine code runs on later dies of its major capability
        ("sm_120", "compute_90"),  # whatever is newer than the compiler takes PTX
    ],
)
def test_the_form_for_a_die(compilations, arch: str, target: str) -> None:
    assert images.target_of(arch) == target


def test_what_entries_need_comes_from_the_same_compilation(compilations, monkeypatch) -> None:
    monkeypatch.setattr(nvrtc, "resources", lambda log: {"log": log})
    images.load_image(SOURCE, "sm_37", {"VALUE": "1"})
    assert images.resources_of(SOURCE, "sm_37", {"VALUE": "1"}) == {"log": "log of sm_37"}
    assert compilations == ["sm_37"]


def test_a_die_older_than_the_compiler_is_refused(compilations) -> None:
    with pytest.raises(images.ArchUnsupported, match="capability 3"):
        images.target_of("sm_21")
