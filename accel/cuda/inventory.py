"""The dies of this host: who they are, which card each is on, and what is free there.

Owns one small context a die to measure through and to try a die with. Places nothing and knows no
model. A die that fails is listed with the reason and hides nobody; used by one thread at a time.
"""

from __future__ import annotations

import ctypes
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from accel.cuda import driver, hung
from accel.cuda.cards import Seat, cards_of
from accel.cuda.die import Die, own_bytes
from accel.errors import DieFailed, OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Iterable

_TRIAL_BYTES = 1 << 20


@dataclass(frozen=True)
class DieReading:
    """One die as just measured. `failure` empty: usable; `own_bytes` are this process's models."""

    ordinal: int
    card: int
    name: str
    uuid: str
    pci_address: str
    arch: str
    emulated: bool
    total_bytes: int
    free_bytes: int = 0
    own_bytes: int = 0
    failure: str = ""


class Inventory:
    """Lists every ordinal the driver counts, in its order. Raises: NoDriver."""

    def __init__(self) -> None:
        self._driver = driver.load()
        with driver.errors_of(0):
            count = self._driver.Device.count()
        described = [_describe(self._driver, ordinal) for ordinal in range(count)]
        cards = cards_of([seat for _reading, seat in described])
        self._dies = {
            reading.ordinal: replace(reading, card=card)
            for (reading, _seat), card in zip(described, cards, strict=True)
        }
        self._probes: dict[int, Die] = {}

    def measure(self) -> tuple[DieReading, ...]:
        """Free bytes now. A die that cannot be asked is failed from then on, until the process ends."""
        return tuple(self._measured(die) for die in tuple(self._dies.values()))

    def try_out(self, ordinals: Iterable[int]) -> None:
        """See whether dies still take memory and keep what is written; those that do not are failed.

        For dies on which a model has just failed: the fault may have been the model's own.
        """
        for ordinal in ordinals:
            die = self._dies.get(ordinal)
            if die is not None and not die.failure:
                try:
                    _try_out(ordinal)
                except OutOfMemory:
                    pass  # full is not broken
                except DieFailed as error:
                    self._fail(die, error)

    def close(self) -> None:
        """Give the contexts back. Safe to call twice."""
        while self._probes:
            self._probes.popitem()[1].close()

    def _measured(self, die: DieReading) -> DieReading:
        if die.failure:
            return die
        try:
            hung.check(die.ordinal)
            probe = self._probes.get(die.ordinal)
            if probe is None:
                probe = self._probes[die.ordinal] = Die(die.ordinal)
            with probe.current():
                before = own_bytes(die.ordinal)
                free_bytes, _total = probe.memory_info()
                # A load or an unload may be under way: what may be ours is not called somebody else's.
                own = max(before, own_bytes(die.ordinal))
        except OutOfMemory:  # others left no room for so much as a context
            return replace(die, own_bytes=own_bytes(die.ordinal))
        except DieFailed as error:
            return self._fail(die, error)
        return replace(die, free_bytes=free_bytes, own_bytes=own)

    def _fail(self, die: DieReading, error: DieFailed) -> DieReading:
        failed = self._dies[die.ordinal] = replace(die, failure=error.why)
        probe = self._probes.pop(die.ordinal, None)
        if probe is not None:
            probe.close()
        return failed


def _describe(cuda: Any, ordinal: int) -> tuple[DieReading, Seat]:
    name, failure, address, arch, board, total_bytes = "unknown", "", "", "", None, 0
    try:
        with driver.errors_of(ordinal):
            device = cuda.Device(ordinal)
            name = device.name()
            address = device.pci_bus_id().lower()
            arch = "sm_{}{}".format(*device.compute_capability())
            total_bytes = device.total_memory()
            board = _board(cuda, device)
    except (DieFailed, OutOfMemory) as error:
        failure = error.why if isinstance(error, DieFailed) else str(error)
    return (
        DieReading(
            ordinal=ordinal,
            card=0,
            name=name,
            uuid=_uuid(ordinal),
            pci_address=address,
            arch=arch,
            emulated=driver.is_emulated(),
            total_bytes=total_bytes,
            failure=failure,
        ),
        Seat(name, address, board),
    )


def _board(cuda: Any, device: Any) -> int | None:
    """The driver's number of a board with several dies; None where this is none, or it cannot tell."""
    attributes = cuda.device_attribute
    with suppress(cuda.Error):
        if device.get_attribute(attributes.MULTI_GPU_BOARD):
            return int(device.get_attribute(attributes.MULTI_GPU_BOARD_GROUP_ID))
    return None


def _uuid(ordinal: int) -> str:
    """As nvidia-smi shows it; empty where the driver does not tell. pycuda has no call for it."""
    raw = (ctypes.c_ubyte * 16)()
    with suppress(OSError, AttributeError):
        if ctypes.CDLL("libcuda.so.1").cuDeviceGetUuid(ctypes.byref(raw), ordinal) == 0:
            return f"GPU-{uuid.UUID(bytes=bytes(raw))}"
    return ""


def _try_out(ordinal: int) -> None:
    """Write and read back through a context of its own. Raises: OutOfMemory, DieFailed."""
    die = Die(ordinal)
    try:
        with die.current():
            region = die.allocate(_TRIAL_BYTES, "a trial")
            # Page-locked: to copy other memory the driver waits for the die, and for ever if that hangs.
            sent, received = die.pinned((2, _TRIAL_BYTES // 4), np.uint32).array
            sent[:] = np.arange(len(sent))
            received.fill(0)
            die.copy_in(region.address, sent)
            die.copy_out(received, region.address)
            die.synchronize()
            is_kept = np.array_equal(sent, received)
        if not is_kept:
            raise DieFailed(ordinal, "it does not keep what is written to it")
    finally:
        die.close()
