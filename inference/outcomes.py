"""What became of replicas, told to the database however long it takes to hear it.

Owns the patience: a locked or absent database delays a row, and never makes one wrong. Knows nothing
about loading.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from django.db import close_old_connections
from django.db.utils import DatabaseError

from registry import services

if TYPE_CHECKING:
    from registry.states import State

logger = logging.getLogger(__name__)

RETRY_S = 2.0


class Outcomes:
    """Thread-safe."""

    def __init__(self, retry_s: float = RETRY_S) -> None:
        self._retry_s, self._stopping = retry_s, threading.Event()

    def stop(self) -> None:
        """Nobody waits for the database any more."""
        self._stopping.set()

    def move(self, replica_id: str, state: State, reason: str = "", **fields: Any) -> None:
        """Move the row; `fields` as `services.replica_transition` takes them.

        Raises: RegistryError; DatabaseError, when the server stops before the database has heard it.
        """
        while True:
            try:
                services.replica_transition(replica_id, state, reason=reason, **fields)
                return
            except DatabaseError as error:
                logger.error("that %s is %s cannot be recorded yet: %s", replica_id, state, error)
                close_old_connections()
                if self._stopping.wait(self._retry_s):
                    raise

    def progress(self, replica_id: str, phase: str, share: float) -> None:
        """Said once: a bar that stands still is no reason to wait."""
        try:
            services.replica_progress(replica_id, phase, share)
        except DatabaseError as error:
            logger.warning("the progress of %s cannot be recorded: %s", replica_id, error)
