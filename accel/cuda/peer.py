"""Copies from one die to another, in the order of both streams.

Owns the choice between the direct way and the way through page-locked host memory; knows nothing
about what is copied. Some hosts claim the direct way and lose what goes over it (an IOMMU or a PCIe
switch that redirects it), so it is tried before it is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel.cuda import driver
from accel.cuda.hung import Mark

if TYPE_CHECKING:
    from accel.cuda.die import Die

_PROBE_BYTES = 4096


class Crossing:
    """From `source` to `target`, at most `max_bytes` a copy. Takes host memory where it is not direct.

    Raises, at any call: OutOfMemory, DieFailed.
    """

    def __init__(self, source: Die, target: Die, max_bytes: int) -> None:
        self._source, self._target = source, target
        with source.current():
            self._ready = source.new_event()
        with target.current():
            self._arrived = target.new_event()
        self.is_direct = _open_direct(source, target) and self._proves_direct()
        if not self.is_direct:
            with source.current():
                self._staging = source.pinned((max_bytes,), np.uint8)

    def copy(self, target_address: int, source_address: int, num_bytes: int) -> None:
        """Copy what the source's stream has made by now; what the target's stream does next sees it.

        Returns at once. The source's stream goes on when the copy is done, so it may overwrite.
        """
        source, target = self._source, self._target
        if self.is_direct:
            self._copy_direct(target_address, source_address, num_bytes)
        else:
            staging = self._staging.array[:num_bytes]
            with source.current():
                source.copy_out(staging, source_address)
                source.record(self._ready)
            with target.current():
                target.follow(self._ready)
                target.copy_in(target_address, staging)
                target.record(self._arrived)
        with source.current():
            source.follow(self._arrived)

    def _copy_direct(self, target_address: int, source_address: int, num_bytes: int) -> None:
        source, target = self._source, self._target
        with source.current():
            source.record(self._ready)
        with target.current():
            target.follow(self._ready)
            driver.load().memcpy_peer_async(
                target_address,
                source_address,
                num_bytes,
                dest_context=target.context,
                src_context=source.context,
                stream=target.stream,
            )
            target.record(self._arrived)

    def _proves_direct(self) -> bool:
        source, target = self._source, self._target
        with source.current():
            # Page-locked: to copy other memory the driver waits for the die, and for ever if that hangs.
            page_locked = source.pinned((2, _PROBE_BYTES), np.uint8)
            sent, received = page_locked.array
            sent[:] = np.arange(_PROBE_BYTES, dtype=np.uint8)
            received.fill(0)
            origin = source.allocate(_PROBE_BYTES, "a trial copy")
            source.copy_in(origin.address, sent)
        with target.current():
            goal = target.allocate(_PROBE_BYTES, "a trial copy")
            target.fill_zero(goal.address, _PROBE_BYTES)
        self._copy_direct(goal.address, origin.address, _PROBE_BYTES)
        with target.current():
            target.copy_out(received, goal.address)
            target.synchronize((Mark(source, self._ready),))
            target.free(goal)
        is_whole = bool((sent == received).all())
        with source.current():
            source.free(origin)
            source.free_pinned(page_locked)
        return is_whole


def _open_direct(source: Die, target: Die) -> bool:
    """Let each die reach the other's memory; False where the driver says that they cannot."""
    cuda = driver.load()
    with source.current():
        if not cuda.Device(source.ordinal).can_access_peer(cuda.Device(target.ordinal)):
            return False
    for die, peer in ((source, target), (target, source)):
        if peer in die.peers:
            continue
        with die.current():
            try:
                cuda.Context.enable_peer_access(peer.context)
            except cuda.LogicError:
                return False
        die.peers.add(peer)
    return True
