"""The way to emulated dies: the same kernels on this host's CPU, for trying things out and for tests.

Owns nothing but the seam. The emulator itself, a CUDA driver in C++ and a compiler that turns kernels
into host code, lives in `tests/emulator` of a checkout.
"""

from __future__ import annotations

import importlib
from typing import Any

from accel.cuda import driver
from accel.errors import AccelError


class EmulationUnavailable(AccelError):
    """This installation cannot emulate dies. `why` says what is missing."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"Dies cannot be emulated: {why}. Run `make setup-cuda-emulated` in a checkout, or unset"
            " PANTHEON_EMULATED_DIES."
        )


def install(num_dies: int) -> None:
    """Make `num_dies` emulated K80 dies the process's dies. Takes seconds the first time on a machine.

    To be called before the driver is first loaded. Raises: EmulationUnavailable, NoDriver.
    """
    emulator = _part("emulated_driver")
    try:
        library = emulator.library()
    except emulator.BuildFailed as error:
        raise EmulationUnavailable(str(error)) from error
    emulator.EmulatedDriver(library).reset(num_dies=num_dies)
    driver.use_library(library)


def compiler_id() -> str:
    """What an image of `compile_for_host` depends on besides its source and names."""
    return str(_part("host_compiler").identity())


def compile_for_host(source: str, names: tuple[str, ...]) -> bytes:
    """The image of a kernel for an emulated die. Raises: KernelRefused, EmulationUnavailable."""
    image: bytes = _part("host_compiler").compile_for_host(source, names)
    return image


def _part(name: str) -> Any:
    try:
        return importlib.import_module(f"tests.emulator.{name}")
    except ImportError as error:
        raise EmulationUnavailable(f"the emulator is not here ({error})") from error
