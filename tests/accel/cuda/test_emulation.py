"""Emulated dies for users: a process asks for some, and has them; or is told what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accel.cuda import emulation
from tests.conftest import NO_EMULATOR, can_emulate

ROOT = Path(__file__).parents[3]
ASK_FOR_EIGHT = """
from accel.cuda import driver, emulation
emulation.install(8)
cuda = driver.load()
print(driver.is_emulated(), cuda.Device.count(), cuda.Device(7).name(), cuda.Device(7).total_memory())
"""
ASK_TOO_LATE = """
from accel.cuda import driver, emulation
emulation.install(1)
driver.load()
driver.use_library(None)
"""


def in_a_process_of_its_own(program: str) -> subprocess.CompletedProcess[str]:
    """The driver is a choice of the process."""
    command = (sys.executable, "-c", program)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not can_emulate(), reason=NO_EMULATOR)
def test_a_process_has_the_dies_it_asked_for() -> None:
    done = in_a_process_of_its_own(ASK_FOR_EIGHT)
    assert done.stdout.split() == ["True", "8", "Tesla", "K80", str(11441 << 20)], done.stderr


@pytest.mark.skipif(not can_emulate(), reason=NO_EMULATOR)
def test_dies_once_loaded_are_not_exchanged() -> None:
    assert "NoDriver" in in_a_process_of_its_own(ASK_TOO_LATE).stderr


def test_a_host_that_cannot_build_the_driver_is_told_why(monkeypatch, tmp_path) -> None:
    from tests.emulator import emulated_driver

    monkeypatch.setattr(emulated_driver, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(emulation.EmulationUnavailable, match=r"g\+\+ is not installed"):
        emulation.install(1)


def test_an_installation_without_the_emulator_is_told_so(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tests.emulator.host_compiler", None)
    with pytest.raises(emulation.EmulationUnavailable, match="make setup-cuda-emulated"):
        emulation.compiler_id()
