"""Fixtures every test may use: where the reference data lies, and what was skipped."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.emulator.emulated_driver import EmulatedDriver

# Wall-clock deadlines fail on a busy machine, not on a bug; tests that must end have a timeout.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")

# Larger reference data lives beside the checkout; tests that need it are skipped, and counted, without.
SHARED = Path(os.environ.get("PANTHEON_TEST_SHARED", Path(__file__).parents[2] / "shared"))
GOLDEN = Path(__file__).parent / "golden"


def pytest_configure() -> None:
    """Servers that tests start end on Ctrl-C, also where the run is a shell's background job: those ignore
    it, and their children with them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave what thousands of tests brought with them out of every later collection.

    Each would take a second at the end of a long run, in the middle of a test that waits for an answer.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def golden() -> Path:
    """Small reference data that is part of the project."""
    return GOLDEN


@pytest.fixture(scope="session")
def shared_golden() -> Path:
    """The full reference data, where it is present."""
    folder = SHARED / "golden"
    if not folder.is_dir():
        pytest.skip(f"full reference data is absent: {folder}")
    return folder


# ---- dies: emulated by default, the host's own where PANTHEON_TEST_DIES=real ------------------------------

ON_REAL_DIES = os.environ.get("PANTHEON_TEST_DIES") == "real"
# The passes of every test that runs kernels. Strict is the least kind driver: nothing runs before something
# waits for it, memory starts as NaN, and the last thread comes first.
PASSES: dict[str, dict[str, Any]] = {
    "eager": {},
    "strict": {"lazy": True, "poison": True, "reversed_threads": True},
}
REMEDY = "`make setup-cuda-emulated` changes that"
NO_EMULATOR = f"dies cannot be emulated here; {REMEDY}"


def can_emulate() -> bool:
    wanted = ("pycuda", "nvidia")
    return bool(shutil.which("g++")) and all(map(importlib.util.find_spec, wanted))


@pytest.fixture(scope="session")
def _emulated_driver() -> EmulatedDriver:
    """This process's dies are emulated from here on; there are none but where a test asks for them."""
    if ON_REAL_DIES:
        pytest.skip("an emulated driver is wanted, and this run is on the host's own dies")
    if not can_emulate():
        pytest.skip(NO_EMULATOR)
    from accel.cuda import driver
    from tests.emulator import emulated_driver

    library = emulated_driver.library()
    driver.use_library(library)
    return emulated_driver.EmulatedDriver(library)


@pytest.fixture
def emulated(_emulated_driver: EmulatedDriver) -> Iterator[EmulatedDriver]:
    """An emulated driver with the two dies of one card, for tests that set the driver up themselves."""
    from accel.cuda import hung

    _emulated_driver.reset(num_dies=2)
    yield _emulated_driver
    hung._hung.clear()  # the next test has another machine
    num_stuck = _emulated_driver.num_stuck_calls()
    overrun = _emulated_driver.num_written_past_end()
    left_open = _emulated_driver.num_contexts()
    _emulated_driver.reset(num_dies=0)
    assert not overrun, "memory of a die was written past its end"
    assert not left_open, "a die was not closed"
    assert not num_stuck, "the driver was asked for what it never does while a die hangs"


@pytest.fixture(params=list(PASSES))
def dies(request: pytest.FixtureRequest) -> Callable[..., None]:
    """dies(num_dies, **arguments of EmulatedDriver.reset) makes so many dies ready, in every pass.

    On the host's own dies there is one pass, and a test that wants more dies than there are is skipped.
    """
    if ON_REAL_DIES:
        if request.param != "eager":
            pytest.skip("the host's own dies choose their order themselves")
        return _real_dies
    emulated: EmulatedDriver = request.getfixturevalue("emulated")

    def reset(num_dies: int, **arguments: Any) -> None:
        emulated.reset(num_dies, **{**PASSES[request.param], **arguments})

    return reset


def _real_dies(num_dies: int) -> None:
    from accel.cuda import driver

    present = driver.load().Device.count()
    if present < num_dies:
        pytest.skip(f"{num_dies} dies are wanted, this host has {present}")


def pytest_report_header() -> list[str]:
    """What a run on real dies ran on, so that its result can be told from one on another GPU."""
    if not ON_REAL_DIES:
        return []
    from accel.cuda import driver
    from accel.errors import NoDriver

    try:
        cuda = driver.load()
    except NoDriver as error:
        raise pytest.UsageError(str(error)) from error
    major, minor = divmod(cuda.get_driver_version(), 1000)
    return [f"CUDA driver {major}.{minor // 10}"] + [
        f"die {n}: {die.name()}, sm_{''.join(map(str, die.compute_capability()))}, PCI {die.pci_bus_id()}"
        for n, die in enumerate(map(cuda.Device, range(cuda.Device.count())))
    ]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was left out for want of dies, so that a skip never reads as a pass."""
    skipped = terminalreporter.stats.get("skipped", ())
    left_out = sum(REMEDY in str(report.longrepr) for report in skipped)
    if left_out:
        terminalreporter.write_line(f"{left_out} tests of dies were left out; {REMEDY}.")
