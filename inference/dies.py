"""The dies of this host while a server lives: found at its start, looked at again, told to the database.

Owns the thread that looks. Places nothing, loads nothing, and asks for no driver where models are to
run on the CPU.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import close_old_connections
from django.db.utils import DatabaseError

from accel.budget import budget_of
from accel.cuda import emulation
from accel.cuda.inventory import DieReading, Inventory
from accel.errors import AccelError
from registry import services
from registry.services import MeasuredDie

logger = logging.getLogger(__name__)

LOOK_S = 5.0
DRIVER_FOLDER = Path("/proc/driver/nvidia")  # there once NVIDIA's kernel module is loaded


@dataclass(frozen=True)
class SeenDie:
    """One die at the last look. `used_bytes` are held by this process's models."""

    measured: MeasuredDie
    used_bytes: int

    @property
    def free_bytes(self) -> int:
        """For another model."""
        taken = self.measured.external_bytes + self.used_bytes
        return 0 if self.measured.failure else max(self.measured.budget_bytes - taken, 0)


@dataclass(frozen=True)
class DieSettings:
    """`wanted` False: models are to run on the host whatever it has. num_emulated 0: the host's own dies."""

    wanted: bool
    reserve_bytes: int
    num_emulated: int = 0


def die_settings(values: Mapping[str, Any]) -> DieSettings:
    """From the environ schema's values."""
    return DieSettings(
        wanted=values["PANTHEON_BACKEND"] == "auto",
        reserve_bytes=values["PANTHEON_DIE_RESERVE_BYTES"],
        num_emulated=values["PANTHEON_EMULATED_DIES"],
    )


_serving: DieWatch | None = None  # for views, which Django constructs without arguments


def serve_with(watch: DieWatch | None) -> None:
    """This one looks at the dies of this process from now on."""
    global _serving
    _serving = watch


def seen_dies() -> tuple[SeenDie, ...]:
    """The dies of this host as this process saw them last; none where models run on the CPU."""
    return _serving.seen if _serving is not None else ()


def find_dies(settings: DieSettings) -> None:
    """Look once and record what is there, for commands. Raises: AccelError, when emulation is impossible."""
    watch = DieWatch(settings)
    watch.find()
    watch.stop()


class DieWatch:
    """`find` once, then `start`. Every method may be called from any thread."""

    def __init__(self, settings: DieSettings) -> None:
        self._settings = settings
        self._inventory: Inventory | None = None
        self.seen: tuple[SeenDie, ...] = ()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dies", daemon=True)

    def find(self) -> None:
        """Record the dies of this host; rows of others are shown no more. Raises: AccelError, as above."""
        with self._lock:
            self._inventory = self._open()
            found = self._inventory.measure() if self._inventory else ()
        services.dies_record(self._see(found))
        for reading in found:
            if reading.failure:
                logger.warning("die %s cannot be used: %s", reading.ordinal, reading.failure)

    def start(self) -> None:
        if self._inventory is not None:
            self._thread.start()

    def look(self) -> None:
        """Measure now, and record what has changed."""
        with self._lock:
            if self._inventory is None:
                return
            readings = self._inventory.measure()
        services.dies_measured(self._see(readings))

    def try_out(self, ordinals: Iterable[int]) -> None:
        """A model has failed on these: see whether the dies have, and keep models off those that have."""
        with self._lock:
            if self._inventory is None:
                return
            self._inventory.try_out(ordinals)
        self.look()

    def stop(self) -> None:
        """Give the contexts back. Safe to call twice."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            if self._inventory is not None:
                self._inventory.close()
                self._inventory = None
                self.seen = ()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            try:
                self.look()
            except DatabaseError:
                logger.exception("what was measured could not be recorded")
            except AccelError:
                logger.exception("the dies could not be measured")
            finally:
                close_old_connections()

    def _open(self) -> Inventory | None:
        settings = self._settings
        if not settings.wanted:
            return None
        if settings.num_emulated:
            emulation.install(settings.num_emulated)
            return Inventory()
        try:
            return Inventory()
        except AccelError as error:
            # Most hosts have no dies, and nothing to say about it.
            logger.log(logging.WARNING if DRIVER_FOLDER.exists() else logging.DEBUG, "%s", error)
            return None

    def _see(self, readings: Iterable[DieReading]) -> list[MeasuredDie]:
        """Keep it for the metrics; what the database is told of it."""
        self.seen = tuple(SeenDie(self._told(each), each.own_bytes) for each in readings)
        return [each.measured for each in self.seen]

    def _told(self, reading: DieReading) -> MeasuredDie:
        budget = budget_of(
            reading.total_bytes,
            reading.free_bytes,
            reading.own_bytes,
            self._settings.reserve_bytes,
        )
        return MeasuredDie(
            ordinal=reading.ordinal,
            card_ordinal=reading.card,
            card_name=_model(reading),
            total_bytes=reading.total_bytes,
            budget_bytes=budget.budget_bytes,
            external_bytes=0 if reading.failure else budget.external_bytes,
            failure=reading.failure,
            uuid=reading.uuid,
            pci_address=reading.pci_address,
            emulated=reading.emulated,
        )


def _model(reading: DieReading) -> str:
    return f"{reading.name} (emulated)" if reading.emulated else reading.name
