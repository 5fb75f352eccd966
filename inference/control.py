"""Loading and unloading by request: what the JSON control API and commands ask, and the answers.

Owns the frozen requests and answers, and waiting for an outcome. Writes through `registry.services`
alone; the supervisor does the work.
"""

from __future__ import annotations

import threading
from dataclasses import asdict

import msgspec

from accel.host import available_bytes
from inference import catalogue
from registry import placement, selectors, services
from registry.errors import ArtifactNotFound, RegistryError
from registry.models import Replica
from registry.states import State

WAIT_POLL_S = 0.1
SETTLED = frozenset({State.READY, State.UNLOADED, State.FAILED})
_stopping = threading.Event()


class UnsupportedOption(RegistryError):
    def __init__(self, option: str, why: str) -> None:
        self.option, self.why = option, why
        super().__init__(f"'{option}' is not supported: {why}.")


class LoadFailed(RegistryError):
    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"'{name}' could not be loaded: {reason}")


class LoadRequest(msgspec.Struct, frozen=True):
    """Exactly one of `path` (a file in a model folder) and `artifact` (id, digest or name).

    `another`: one more replica, where the model is loaded under that name already.
    """

    name: str
    path: str | None = None
    artifact: str | None = None
    dies: tuple[int, ...] = ()
    quantize: bool = False
    another: bool = False
    wait: bool = True


class UnloadRequest(msgspec.Struct, frozen=True):
    """`name` is a served name (all its replicas) or a replica's id."""

    name: str
    mode: str = "drain"
    timeout_s: float | None = None
    wait: bool = True


class ReplicaStatus(msgspec.Struct, frozen=True):
    replica_id: str
    name: str
    state: str
    reason: str
    dies: tuple[int, ...]
    phase: str
    progress: float


class DiesStatus(msgspec.Struct, frozen=True):
    dies: tuple[dict[str, object], ...]
    reason: str  # why there are none, else empty


def load(request: LoadRequest, actor: str) -> ReplicaStatus:
    """Ask for a replica, or find the one there is; with `wait`, return when it is ready.

    Raises: RegistryError, ModelError.
    """
    rooms = selectors.die_rooms(request.name)
    if request.dies and not rooms:
        raise UnsupportedOption("dies", "this host has no dies; leave it out to load onto the CPU")
    if request.path is not None:
        artifact = catalogue.register_allowed_path(request.path)
    elif request.artifact is not None:
        artifact = services.artifact_find(request.artifact)
    else:
        raise ArtifactNotFound("")
    is_held = selectors.is_held(artifact, request.name, quantize=request.quantize)
    if request.another or request.dies or not is_held:
        demand = services.artifact_demand(artifact, quantise=request.quantize)
        placement.place(demand, rooms, available_bytes(), request.dies)
    replica = services.replica_request(
        artifact=artifact,
        served_name=request.name,
        dies=request.dies,
        quantize=request.quantize,
        another=request.another,
        actor=actor,
    )
    if request.wait:
        replica = wait_settled(replica)
        if replica.state == State.FAILED:
            raise LoadFailed(request.name, replica.failure_reason)
    return status(replica)


def unload(request: UnloadRequest, actor: str) -> tuple[ReplicaStatus, ...]:
    """Ask for replicas to go; with `wait`, return when their memory is free. Raises: RegistryError."""
    replicas = services.replica_request_unload(
        wanted=request.name, mode=request.mode, timeout_s=request.timeout_s, actor=actor
    )
    if request.wait:
        replicas = [
            wait_settled(replica, done=frozenset({State.UNLOADED, State.FAILED}))
            for replica in replicas
        ]
    return tuple(status(replica) for replica in replicas)


def dies() -> DiesStatus:
    listed = tuple(
        {**asdict(die), "free_bytes": die.free_bytes} for die in selectors.dies_overview()
    )
    return DiesStatus(listed, "" if listed else selectors.NO_DIES)


def wait_settled(replica: Replica, done: frozenset[str] = SETTLED) -> Replica:
    """Until the replica is in such a state, or this process stops: then it may stay as it is."""
    while replica.state not in done and not _stopping.wait(WAIT_POLL_S):
        replica.refresh_from_db()
    return replica


def stop_waiting() -> None:
    """This process stops: nobody may be kept waiting, for the interpreter waits for who waits."""
    _stopping.set()


def status(replica: Replica) -> ReplicaStatus:
    return ReplicaStatus(
        replica_id=replica.public_id,
        name=replica.served_name,
        state=replica.state,
        reason=replica.failure_reason,
        dies=selectors.dies_of(replica),
        phase=replica.phase,
        progress=replica.progress,
    )
