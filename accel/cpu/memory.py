"""Memory for weights, KV pages and step buffers: aligned to cache lines, in huge pages where the host allows.

Owns anonymous maps and how they are cut up; knows nothing about what is stored in them. Weights are
read from end to end for every token: with 4 KiB pages every 64 lines cost a walk of the page tables
and stop the hardware prefetcher.
"""

from __future__ import annotations

import contextlib
import mmap
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from accel.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK_BYTES = 32 << 20
HUGE_PAGE_BYTES = 2 << 20
SMALL_PAGE_BYTES = 4 << 10
LINE_BYTES = 64


class Arena:
    """Zeroed bytes for `what` (named in errors). All are given back together, with the arena."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._chunk = np.zeros(0, np.uint8)
        self._used = 0
        self.taken_bytes = 0

    def take(self, num_bytes: int) -> npt.NDArray[np.uint8]:
        """num_bytes zeroed bytes that start on a cache line. Raises: OutOfMemory."""
        if self._used + num_bytes > len(self._chunk):
            self._chunk, self._used = self._map(max(CHUNK_BYTES, num_bytes)), 0
        start = self._used
        self._used = round_up(start + num_bytes, LINE_BYTES)
        self.taken_bytes += round_up(num_bytes, LINE_BYTES)
        return self._chunk[start : start + num_bytes]

    def _map(self, num_bytes: int) -> npt.NDArray[np.uint8]:
        size = round_up(num_bytes, HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES
        try:
            # Shared maps get no transparent huge pages.
            region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError, OverflowError) as error:
            raise OutOfMemory(self._what, num_bytes) from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # hosts without huge pages serve small ones
                region.madvise(mmap.MADV_HUGEPAGE)
        raw = np.frombuffer(region, np.uint8)
        start = -raw.ctypes.data % HUGE_PAGE_BYTES
        return raw[start : len(raw) - HUGE_PAGE_BYTES + start]


@contextlib.contextmanager
def touched(pieces: Iterable[npt.NDArray[np.uint8]], num_threads: int) -> Iterator[None]:
    """By the end of the block every page of these pieces has been written to, on other threads, so that
    no step waits for the kernel to zero one."""
    with ThreadPoolExecutor(num_threads, "touch-memory") as pool:
        tasks = [pool.submit(piece[::SMALL_PAGE_BYTES].fill, 0) for piece in pieces]
        yield
        for task in tasks:
            task.result()


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
