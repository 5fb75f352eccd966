"""Bytes on a die and page-locked bytes on the host, counted per context.

Owns the account of what a context holds; knows nothing about what is stored in it. Every call needs
the context to be current.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accel.errors import OutOfMemory

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(eq=False)
class Region:
    """`num_bytes` at `address` on a die; `memory` is the driver's handle."""

    address: int
    num_bytes: int
    what: str
    memory: Any


@dataclass(eq=False)
class Pinned:
    """A page-locked host array; `memory` is the driver's handle."""

    array: npt.NDArray[Any]
    memory: Any


class Account:
    """What one context holds. `allocated_bytes` counts die memory, `pinned_bytes` host memory."""

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._regions: set[Region] = set()
        self._pinned: set[Pinned] = set()
        self.allocated_bytes = self.pinned_bytes = 0

    def allocate(self, driver: Any, num_bytes: int, what: str) -> Region:
        """Raises: OutOfMemory."""
        assert num_bytes > 0
        self.allocated_bytes += num_bytes
        try:
            memory = driver.mem_alloc(num_bytes)
        except driver.Error as error:
            self.allocated_bytes -= num_bytes
            if isinstance(error, driver.MemoryError):
                raise OutOfMemory(f"{what} on die {self._ordinal}", num_bytes) from error
            raise
        region = Region(int(memory), num_bytes, what, memory)
        self._regions.add(region)
        return region

    def free(self, region: Region) -> None:
        self._regions.remove(region)
        try:
            region.memory.free()
        finally:
            self.allocated_bytes -= region.num_bytes

    def pinned(self, driver: Any, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Pinned:
        """Raises: OutOfMemory, when the host has no such memory left to lock."""
        num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        try:
            # Portable: a copy to another die starts from it too.
            flags = driver.host_alloc_flags.PORTABLE
            array = driver.pagelocked_empty(shape, dtype, mem_flags=flags)
        except driver.MemoryError as error:
            what = f"page-locked host memory for die {self._ordinal}"
            raise OutOfMemory(what, num_bytes) from error
        pinned = Pinned(array, array.base)
        self._pinned.add(pinned)
        self.pinned_bytes += num_bytes
        return pinned

    def free_pinned(self, driver: Any, pinned: Pinned) -> None:
        """Also where the driver refuses: then its context takes it along."""
        self._pinned.remove(pinned)
        self.pinned_bytes -= pinned.array.nbytes
        with suppress(driver.Error):
            pinned.memory.free()

    def release_all(self, driver: Any) -> None:
        """Give back whatever is left, also where the driver refuses: then its context takes it along."""
        handles = [region.memory for region in self._regions]
        handles += [pinned.memory for pinned in self._pinned]
        for memory in handles:
            with suppress(driver.Error):
                memory.free()
        self._regions.clear()
        self._pinned.clear()
        self.allocated_bytes = self.pinned_bytes = 0
