"""Uploads: host memory to a die through page-locked staging, a chunk at a time.

Owns the staging buffers and whose turn it is: one upload at a time in the process, so that the staging
of several loads never adds up on a small host. Knows nothing about what is uploaded.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import numpy as np

from accel.cuda import driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from accel.cuda.die import Die

CHUNK_BYTES = 8 << 20
_NUM_CHUNKS = 2  # the host fills one while the die takes the other

_turn = threading.RLock()  # a model split over dies uploads to each in its one turn


@contextmanager
def uploading(
    die: Die, report: Callable[[int], None], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Upload]:
    """Wait for the turn; the block's uploads are complete when it is left. `die` must be current.

    `report(num_bytes)` hears of every chunk given to the die; what it raises ends the upload.
    Raises: OutOfMemory, DieFailed.
    """
    with _turn:
        upload = Upload(die, report, chunk_bytes)
        try:
            yield upload
            die.synchronize()
        finally:
            upload.close()


class Upload:
    """Made by `uploading`."""

    def __init__(self, die: Die, report: Callable[[int], None], chunk_bytes: int) -> None:
        self._die, self._report = die, report
        self._staging = die.pinned((_NUM_CHUNKS, chunk_bytes), np.uint8)
        self._taken = [die.new_event() for _ in range(_NUM_CHUNKS)]
        self._turn = 0

    def send(self, address: int, source: npt.NDArray[np.generic]) -> None:
        """Copy a C-contiguous array to `address`. The array may change once this returned."""
        data = source.reshape(-1).view(np.uint8)
        chunk_bytes = self._staging.array.shape[1]
        for start in range(0, len(data), chunk_bytes):
            piece = data[start : start + chunk_bytes]
            chunk, taken = self._staging.array[self._turn, : len(piece)], self._taken[self._turn]
            self._die.wait(taken)
            chunk[:] = piece
            self._die.copy_in(address + start, chunk)
            self._die.record(taken)
            self._turn = (self._turn + 1) % _NUM_CHUNKS
            self._report(len(piece))

    def close(self) -> None:
        """Give the staging back, also of a die that failed; not of one that hangs. Raises: DieHung."""
        if self._die.is_abandoned:
            return
        with suppress(driver.load().Error):
            self._die.synchronize()  # the die may still be reading what is freed next
        self._die.free_pinned(self._staging)
