"""From the model a request names to a lease on a replica, held until the request is over."""

from __future__ import annotations

from inference.api.errors import NotStarted
from inference.api.held import held
from inference.runtime import Runtime, ServedReplica
from inference.runtime_access import get_runtime


def lease_replica(model: str | None, *, session_id: str, tenant: str) -> ServedReplica:
    """Raises: NotStarted, NoModelLoaded, ModelNotFound, ModelDraining."""
    # An empty name means none: some clients send it when nothing was chosen.
    lease = started_runtime().lease(model or None, session_id=session_id, tenant=tenant)
    return held.get().enter_context(lease).replica


def started_runtime() -> Runtime:
    """Raises: NotStarted."""
    try:
        return get_runtime()
    except RuntimeError as error:
        raise NotStarted from error
