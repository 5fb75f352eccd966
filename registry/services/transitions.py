"""Moving a replica from state to state. Every move is claimed in the database, and leaves a row.

Owns the effects a move has on the replica's open jobs and bindings. Knows nothing about why it moves.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from django.db import transaction
from django.utils import timezone

from registry.errors import InvalidTransition, InvalidValue, ReplicaNotFound
from registry.models import Binding, Job, Replica, ReplicaTransition
from registry.names import printable
from registry.services.replica_jobs import jobs_follow
from registry.states import HELD, State, Wanted, after_restart, may_become

logger = logging.getLogger(__name__)

REASON_LEN = 2048
# What a caller may set together with a move.
MOVE_FIELDS = frozenset({"backend", "actual_context_len", "num_slots"})


def replica_get(replica_id: str) -> Replica:
    """Raises: ReplicaNotFound."""
    replica = Replica.objects.select_related("artifact").filter(pk=replica_id).first()
    if replica is None:
        raise ReplicaNotFound(replica_id[:128])
    return replica


def replica_transition(
    replica_id: str, new_state: State | str, *, reason: str = "", **fields: Any
) -> Replica:
    """Move the replica along the table of states; `fields` are of MOVE_FIELDS.

    Raises: ReplicaNotFound; InvalidTransition when the table has no such move or another caller moved
    the replica first; InvalidValue.
    """
    unknown = set(fields) - MOVE_FIELDS
    if unknown:
        raise InvalidValue("fields", f"cannot be set by a transition: {', '.join(sorted(unknown))}")
    new = State(new_state)
    replica = replica_get(replica_id)
    if not may_become(State(replica.state), new):
        raise InvalidTransition(replica_id, replica.state, new)
    claim_move(replica, new, reason=reason, **fields)
    return replica


def replica_progress(replica_id: str, phase: str, share: float) -> None:
    """Show how far a load is. Ignored once the replica is past loading."""
    share = min(max(share, 0.0), 1.0)
    shown = Replica.objects.filter(pk=replica_id, state__in=(State.PLACED, State.LOADING)).update(
        phase=printable(phase)[:128], progress=share
    )
    if shown:
        Job.objects.filter(
            replica_id=replica_id, kind=Job.Kind.LOAD, state=Job.State.RUNNING
        ).update(progress=share, message=phase[:128])


def replicas_reset_at_boot() -> list[Replica]:
    """Bring rows of an earlier process in line with the fact that nothing is loaded yet.

    What is wanted loaded is requested again, failed ones included; the rest is unloaded.
    Returns the replicas that were moved.
    """
    left_behind = Replica.objects.select_related("artifact").exclude(state=State.UNLOADED)
    moved = []
    for replica in left_behind:
        new = after_restart(State(replica.state), Wanted(replica.wanted))
        if new is State(replica.state):
            continue
        claim_move(replica, new, reason="The server was restarted.")
        moved.append(replica)
    return moved


def replicas_stopped() -> list[Replica]:
    """Say of everything this process held that it holds it no more; returns the replicas that were moved.

    For the orderly end of a server, after its models are freed: what is wanted loaded is requested again,
    for the next start; the rest is unloaded. Failed ones keep their reasons until then.
    """
    moved = []
    for replica in Replica.objects.select_related("artifact").filter(state__in=HELD):
        new = after_restart(State(replica.state), Wanted(replica.wanted))
        # A replica that somebody else moved in this moment has its outcome already.
        with suppress(InvalidTransition):
            claim_move(replica, new, reason="The server was stopped.")
            moved.append(replica)
    return moved


@transaction.atomic
def claim_move(
    replica: Replica, new: State, *, reason: str = "", actor: str = "system", **fields: Any
) -> None:
    """Write the move, provided the row still is in the state `replica` shows; refresh `replica`.

    Does not consult the table of states. Raises: InvalidTransition when another caller was first.
    """
    old, reason = State(replica.state), printable(reason)[:REASON_LEN]
    fields = {**_FIELDS_OF.get(new, {}), **fields, "state": new, "changed_at": timezone.now()}
    if new is State.FAILED:
        fields["failure_reason"] = reason or "No reason was given."
    if new is State.READY and old is State.LOADING:
        fields["ready_at"] = fields["changed_at"]
    if new is State.READY and old is State.DRAINING:
        fields.update(KEPT)
    changed = Replica.objects.filter(pk=replica.pk, state=old).update(**fields)
    if changed != 1:
        actual = replica_get(replica.pk).state
        raise InvalidTransition(replica.pk, actual, new)
    ReplicaTransition.objects.create(replica=replica, old=old, new=new, reason=reason)
    if new in (State.REQUESTED, State.UNLOADED, State.FAILED):
        Binding.objects.filter(replica=replica, released_at__isnull=True).update(
            released_at=fields["changed_at"]
        )
    jobs_follow(replica, old, new, reason, actor)
    replica.refresh_from_db()
    because = f": {reason}" if reason else ""
    logger.info("replica %s: %s -> %s%s", replica, old.value, new.value, because)


# What an unload that is cancelled leaves of itself.
KEPT: dict[str, Any] = {"wanted": Wanted.LOADED, "unload_mode": "", "unload_timeout_s": None}
_NOT_LOADED: dict[str, Any] = {
    "phase": "",
    "progress": 0.0,
    "ready_at": None,
    "actual_context_len": 0,
    "num_slots": 0,
}
_FIELDS_OF: dict[State, dict[str, Any]] = {
    State.REQUESTED: {**_NOT_LOADED, "failure_reason": "", "unload_mode": ""},
    State.READY: {"phase": "", "progress": 1.0},
    State.UNLOADED: _NOT_LOADED,
    State.FAILED: _NOT_LOADED,
}
