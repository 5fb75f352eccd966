"""Where a replica goes: chosen, bound, charged exactly, and looked at again after a failure.

Owns the order of freeing and choosing, so that nobody is placed in memory that is only said to be free.
Loads nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from accel.errors import DieFailed
from accel.host import available_bytes
from inference.dies import DieWatch
from registry import placement, selectors, services
from registry.errors import PlacementRefused
from registry.models import Replica
from registry.states import State

FREEING_S = (
    5.0  # freeing takes less, unless a die hangs: then who fits elsewhere does not wait for it
)


class Placer:
    """`dies`: where replicas go first; None: all go to the host."""

    def __init__(self, dies: DieWatch | None) -> None:
        self._dies = dies
        self._changed = threading.Condition()
        self._held: list[Mapping[int, int]] = []  # by die, of those whose binding is released

    @contextmanager
    def freeing(self, replica: Replica) -> Iterator[None]:
        """To be held from before its binding is released until its memory is free."""
        held = selectors.bound_bytes_by_die(replica)
        with self._changed:
            self._held.append(held)
        try:
            yield
        finally:
            with self._changed:
                self._held.remove(held)
                self._changed.notify_all()

    def place(self, replica: Replica) -> tuple[int, ...]:
        """Choose and bind: the replica is placed. Returns its dies, none for the host.

        Waits for memory that is being freed, if not for long; for as long as it takes where nothing else
        would do. Raises: PlacementRefused, InvalidTransition.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._held, FREEING_S)
            chosen = self._choose(replica)
            services.replica_transition(replica.public_id, State.PLACED)
            services.binding_create(
                replica_id=replica.public_id,
                die_bytes=chosen.die_bytes,
                host_bytes=chosen.host_bytes,
            )
        return tuple(sorted(chosen.die_bytes))

    def _choose(self, replica: Replica) -> placement.Placement:
        """Of the memory that is really free. Raises: PlacementRefused."""
        while True:
            if self._dies is not None:
                self._dies.look()
            try:
                return placement.place(
                    services.replica_demand(replica),
                    [self._without_held(room) for room in selectors.die_rooms(replica.served_name)],
                    available_bytes(),
                    replica.dies,
                )
            except PlacementRefused:
                if not self._held:
                    raise
                self._changed.wait()

    def _without_held(self, room: placement.DieRoom) -> placement.DieRoom:
        held = sum(each.get(room.ordinal, 0) for each in self._held)
        return replace(room, used_bytes=room.used_bytes + held)

    def charge(self, replica: Replica, die_bytes: Mapping[int, int]) -> None:
        """The exact need, known once the file is read. Raises: PlacementRefused."""
        services.binding_resize(replica_id=replica.public_id, die_bytes=die_bytes)

    def look_after(self, dies: tuple[int, ...], error: BaseException | None = None) -> None:
        """A replica has failed on these. The error may have been its own, or the die's.

        `error` None: what it was is not known.
        """
        if self._dies is not None and dies and (error is None or isinstance(error, DieFailed)):
            self._dies.try_out(dies)
