"""The runtime: which replicas this process serves right now, and leases on them.

Owns the table of ready replicas. The supervisor adds and removes them; the API leases them. Holds its
lock for table look-ups only. Knows nothing about the database or HTTP.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inference.engine.params import SamplingParams
from inference.session_affinity import SessionAffinity, SessionKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel.backend import MemoryUse
    from inference.engine.worker import Worker
    from inference.text.text_model import TextModel


class RuntimeLookupError(Exception):
    """No replica can take the request."""


class NoModelLoaded(RuntimeLookupError):
    def __init__(self) -> None:
        super().__init__(
            "No model is loaded. Load one in the admin site or with `manage.py serve --model`."
        )


class ModelNotFound(RuntimeLookupError):
    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name, self.known = name, known
        super().__init__(f"The model '{name}' does not exist. Loaded models: {', '.join(known)}.")


class ModelDraining(RuntimeLookupError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"The model '{name}' is being unloaded and accepts no new requests.")


@dataclass(eq=False)
class ServedReplica:
    """A loaded, servable instance. `num_leases` and `draining` are guarded by the runtime's lock.

    sampling: what holds where a request does not say.
    """

    replica_id: str
    served_name: str
    digest: str
    context_len: int
    text: TextModel
    worker: Worker
    memory: MemoryUse
    free_memory: Callable[[], None]
    backend: str = ""
    dies: tuple[int, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    created_unix_s: int = field(default_factory=lambda: int(time.time()))
    num_leases: int = 0
    draining: bool = False

    @property
    def is_full(self) -> bool:
        return self.num_leases >= self.worker.num_slots

    def close(self, message: str) -> None:
        """End every sequence with an error that says `message`, then give the model's memory back."""
        self.worker.close(message)
        self.free_memory()


@dataclass(frozen=True)
class ServedModel:
    """One served name as the API lists it; several replicas are one entry."""

    name: str
    created_unix_s: int
    context_len: int
    num_replicas: int


class Lease:
    """One request's hold on a replica, which a drain waits for. Context manager; release is idempotent."""

    def __init__(self, runtime: Runtime, replica: ServedReplica) -> None:
        self._runtime, self.replica, self._released = runtime, replica, False

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._runtime._give_back(self.replica)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class Runtime:
    """Thread-safe table of served replicas."""

    def __init__(self, *, strict_model: bool = False) -> None:
        self._changed = threading.Condition()
        self._replicas: list[ServedReplica] = []
        self._strict_model = strict_model
        self._turn = itertools.count()
        self._sessions = SessionAffinity()

    def add(self, replica: ServedReplica) -> None:
        with self._changed:
            self._replicas.append(replica)

    def drain(self, replica_id: str) -> None:
        """Stop leasing the replica; leases already given go on."""
        with self._changed:
            self._get(replica_id).draining = True

    def undrain(self, replica_id: str) -> None:
        with self._changed:
            self._get(replica_id).draining = False

    def wait_drained(self, replica_id: str, timeout_s: float) -> bool:
        """Wait until no lease is left; False when the time ran out first."""
        with self._changed:
            replica = self._get(replica_id)
            return self._changed.wait_for(lambda: replica.num_leases == 0, timeout_s)

    def remove(self, replica_id: str) -> ServedReplica:
        with self._changed:
            replica = self._get(replica_id)
            self._replicas.remove(replica)
            return replica

    def lease(self, name: str | None, *, session_id: str = "", tenant: str = "") -> Lease:
        """A replica of that name: the session's last one unless it is full, then fewest leases, in turn.

        With exactly one served name known, any `name` (or none) means it, unless strict_model is set.
        A replica is full with as many leases as slots; without a session_id there is no last one.
        Raises: NoModelLoaded, ModelNotFound, ModelDraining.
        """
        with self._changed:
            names = tuple(sorted({r.served_name for r in self._replicas}))
            if not names:
                raise NoModelLoaded
            if name is not None and name not in names and (self._strict_model or len(names) > 1):
                raise ModelNotFound(name, names)
            # With several names and none given, the longest loaded one answers.
            wanted = (
                name
                if name in names
                else names[0]
                if len(names) == 1
                else self._replicas[0].served_name
            )
            of_name = [r for r in self._replicas if r.served_name == wanted]
            ready = [r for r in of_name if not r.draining]
            if not ready:
                raise ModelDraining(wanted)
            replica = self._choose(ready, SessionKey(tenant, session_id, wanted))
            replica.num_leases += 1
            return Lease(self, replica)

    def models(self) -> tuple[ServedModel, ...]:
        with self._changed:
            by_name: dict[str, list[ServedReplica]] = {}
            for replica in self._replicas:
                if not replica.draining:
                    by_name.setdefault(replica.served_name, []).append(replica)
            return tuple(
                ServedModel(
                    name, min(r.created_unix_s for r in rs), max(r.context_len for r in rs), len(rs)
                )
                for name, rs in sorted(by_name.items())
            )

    def replicas(self) -> Iterator[ServedReplica]:
        with self._changed:
            return iter(tuple(self._replicas))

    def _choose(self, ready: list[ServedReplica], session: SessionKey) -> ServedReplica:
        turn = next(self._turn)
        least = min(r.num_leases for r in ready)
        tied = [r for r in ready if r.num_leases == least]
        replica = tied[turn % len(tied)]
        if session.session_id:
            last_id = self._sessions.find(session)
            for candidate in ready:
                if candidate.replica_id == last_id and not candidate.is_full:
                    replica = candidate
            self._sessions.remember(session, replica.replica_id)
        return replica

    def _get(self, replica_id: str) -> ServedReplica:
        for replica in self._replicas:
            if replica.replica_id == replica_id:
                return replica
        raise KeyError(replica_id)

    def _give_back(self, replica: ServedReplica) -> None:
        with self._changed:
            replica.num_leases -= 1
            self._changed.notify_all()
