"""The CUDA driver, through pycuda: loaded when first asked for, its errors told as ours.

Owns the only import of pycuda and the choice of the driver library; knows nothing about what runs on a
die. A host without dies never gets past `load`, and needs neither pycuda nor a driver.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accel.errors import DieFailed, NoDriver, OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST_ARCH = "host"  # what images of emulated dies are compiled for

_lock = threading.Lock()
_library: Path | None = None
_driver: Any = None


def use_library(library: Path | None) -> None:
    """Take this file for the CUDA driver (the emulated one is such a file); None: the host's own.

    A choice of the process, made before the first `load`. Raises: NoDriver once another was loaded.
    """
    global _library
    with _lock:
        if _driver is not None and library != _library:
            raise NoDriver(f"the driver was loaded already, from {_library or 'the host'}")
        _library = library


def is_emulated() -> bool:
    """Whether the process's dies are emulated on the host."""
    return _library is not None


def load() -> Any:
    """The initialised `pycuda.driver` module. Raises: NoDriver."""
    global _driver
    with _lock:
        if _driver is None:
            _driver = _load()
        return _driver


def _load() -> Any:
    try:
        if _library is not None:
            # pycuda asks the linker for libcuda.so.1; the name is taken once a library has it.
            ctypes.CDLL(str(_library), mode=ctypes.RTLD_GLOBAL)
        import pycuda.driver
    except ImportError as error:
        missing = "pycuda" if isinstance(error, ModuleNotFoundError) else "the CUDA driver"
        raise NoDriver(f"{missing} is not installed ({error})") from error
    except OSError as error:
        raise NoDriver(f"the library cannot be loaded ({error})") from error
    try:
        pycuda.driver.init()
    except pycuda.driver.Error as error:
        raise NoDriver(f"it does not start ({error})") from error
    return pycuda.driver


@contextmanager
def errors_of(ordinal: int) -> Iterator[None]:
    """Tell pycuda's errors as ours, of that die. Raises: OutOfMemory, DieFailed."""
    driver = load()
    try:
        yield
    except driver.MemoryError as error:
        raise OutOfMemory(f"die {ordinal}", 0) from error
    except driver.Error as error:
        raise DieFailed(ordinal, str(error)) from error
