"""What the emulator's tests share: a context on a die, and kernels out of strings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accel.cuda import images
from accel.cuda.driver import HOST_ARCH


def image(source: str) -> bytes:
    return images.load_image(source, HOST_ARCH, {})


def pycuda_driver() -> Any:
    from accel.cuda import driver

    return driver.load()


@contextmanager
def context(die: int = 0) -> Iterator[Any]:
    """A context of the die on this thread, destroyed at the end in whatever state it is."""
    made = pycuda_driver().Device(die).make_context()
    try:
        yield made
    finally:
        made.detach()


def kernel(source: str, name: str) -> Any:
    """A kernel in the current context. Raises: pycuda's Error, KernelRefused."""
    function = pycuda_driver().module_from_buffer(image(source)).get_function(name)
    return function
