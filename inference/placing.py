"""Where a replica goes: chosen, bound, charged exactly, and looked at again after a failure.

Owns the order of freeing and choosing, so that nobody is placed in memory that is only said to be free.
Loads nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager

from accel.errors import DieFailed
from accel.host import available_bytes
from inference.dies import DieWatch
from registry import placement, selectors, services
from registry.models import Replica
from registry.states import State


class Placer:
    """`dies`: where replicas go first; None: all go to the host."""

    def __init__(self, dies: DieWatch | None) -> None:
        self._dies = dies
        self._freeing = threading.Lock()

    def freeing(self) -> AbstractContextManager[object]:
        """To be held from before a binding is released until its memory is free."""
        return self._freeing

    def place(self, replica: Replica) -> tuple[int, ...]:
        """Choose and bind: the replica is placed. Returns its dies, none for the host.

        Raises: PlacementRefused, InvalidTransition.
        """
        if self._dies is not None:
            self._dies.look()
        with self._freeing:
            chosen = placement.place(
                services.replica_demand(replica),
                selectors.die_rooms(replica.served_name),
                available_bytes(),
                replica.dies,
            )
            services.replica_transition(replica.public_id, State.PLACED)
            services.binding_create(
                replica_id=replica.public_id,
                die_bytes=chosen.die_bytes,
                host_bytes=chosen.host_bytes,
            )
        return tuple(sorted(chosen.die_bytes))

    def charge(self, replica: Replica, die_bytes: Mapping[int, int]) -> None:
        """The exact need, known once the file is read. Raises: PlacementRefused."""
        services.binding_resize(replica_id=replica.public_id, die_bytes=die_bytes)

    def look_after(self, dies: tuple[int, ...], error: BaseException | None = None) -> None:
        """A replica has failed on these. The error may have been its own, or the die's.

        `error` None: what it was is not known.
        """
        if self._dies is not None and dies and (error is None or isinstance(error, DieFailed)):
            self._dies.try_out(dies)
