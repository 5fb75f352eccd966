"""Wishing for replicas, and seeing what becomes of them."""

from __future__ import annotations

import time

from inference.engine.params import FinishReason
from inference.runtime import Runtime
from registry import services
from registry.models import Artifact, Replica
from registry.selectors import die_rooms
from registry.states import State
from tests.inference.engine.driving import read_all, request_of

WAIT_S = 30


def wish(artifact: Artifact, name: str = "tiny", **changes) -> Replica:
    return services.replica_request(artifact=artifact, served_name=name, actor="test", **changes)


def becomes(replica: Replica, *states: State) -> State:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        replica.refresh_from_db()
        if replica.state in states:
            return State(replica.state)
        time.sleep(0.02)
    raise AssertionError(f"{replica} stayed {replica.state}: {replica.failure_reason}")


def quarantined(*expected: bool) -> None:
    """Those of the dies, in order, and no others; within a while."""
    deadline = time.monotonic() + WAIT_S
    while (failed := [bool(room.failure) for room in die_rooms()]) != [*expected]:
        assert time.monotonic() < deadline, failed
        time.sleep(0.02)


def answer(runtime: Runtime, name: str = "tiny") -> list[int]:
    """The tokens of a greedy request. It must end by itself."""
    with runtime.lease(name) as lease:
        stream = lease.replica.worker.submit(request_of([1, 2, 3], max_tokens=3))
        tokens = read_all(stream, WAIT_S)
        assert stream.finish is not None
        assert stream.finish.reason is FinishReason.LENGTH, stream.finish.message
        return tokens
