"""A database that is locked, or gone for a while, delays what rows say; it never makes one wrong."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.utils import OperationalError

from inference import catalogue, outcomes
from inference.engine.params import SamplingParams, SequenceRequest
from inference.loading import EngineSettings
from inference.runtime import Runtime
from inference.supervisor import Supervisor
from registry import services
from registry.models import Artifact, Replica
from registry.states import State
from tests.fakes.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30
SETTINGS = EngineSettings(
    backend="reference", kernel_cache_dir=Path("/nonexistent"), num_threads=1, context_len=64
)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other quickly."""
    monkeypatch.setattr("inference.supervisor.POLL_S", 0.05)
    monkeypatch.setattr(outcomes.Outcomes.__init__, "__defaults__", (0.05,))


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """Of a running supervisor."""
    made = Runtime()
    supervisor = Supervisor(made, SETTINGS, tmp_path, drain_s=5)
    supervisor.start()
    yield made
    supervisor.stop()


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    return catalogue.register_file(write_tiny_gguf(tmp_path / "tiny.gguf"), source="test")


def wish(artifact: Artifact, name: str = "tiny") -> Replica:
    return services.replica_request(artifact=artifact, served_name=name, actor="test")


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def becomes(replica: Replica, state: State) -> None:
    def is_so() -> bool:
        replica.refresh_from_db()
        return replica.state == state

    wait_for(is_so)


@contextmanager
def locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody else writes for long; who waits for the lock is told so soon."""
    before = DatabaseWrapper.get_connection_params
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    with monkeypatch.context() as patched:
        patched.setattr(
            DatabaseWrapper,
            "get_connection_params",
            lambda self: {**before(self), "timeout": 0.05},
        )
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
            other.close()


def fails(monkeypatch: pytest.MonkeyPatch, function: str, is_meant: Callable[..., bool]) -> list:
    """The service meets a dead database whenever the call is meant; counts these calls."""
    real, met = getattr(services, function), []

    def failing(*args, **kwargs):
        if is_meant(*args, **kwargs):
            met.append(args)
            raise OperationalError("database is locked")
        return real(*args, **kwargs)

    monkeypatch.setattr(services, function, failing)
    return met


@pytest.mark.parametrize("state", [State.LOADING, State.READY])
def test_a_step_that_cannot_be_recorded_is_recorded_later(
    runtime, artifact, monkeypatch, state
) -> None:
    with monkeypatch.context() as patched:
        met = fails(patched, "replica_transition", lambda _id, new, **_: new == state)
        replica = wish(artifact)
        wait_for(lambda: len(met) > 2)
        replica.refresh_from_db()
        assert replica.state != State.READY
    becomes(replica, State.READY)
    assert [each.replica_id for each in runtime.replicas()] == [replica.public_id]


def test_a_lost_bar_of_progress_is_no_reason_to_give_a_load_up(
    runtime, artifact, monkeypatch
) -> None:
    met = fails(monkeypatch, "replica_progress", lambda *_: True)
    becomes(wish(artifact), State.READY)
    assert met


def test_a_load_whose_wish_cannot_be_read_fails_with_a_reason_and_frees_its_model(
    runtime, artifact, monkeypatch
) -> None:
    """And can be tried again: the row is not left behind in a state that nobody looks at."""
    with monkeypatch.context() as patched:
        fails(patched, "replica_get", lambda *_: True)
        replica = wish(artifact)
        becomes(replica, State.FAILED)
    assert "database" in replica.failure_reason
    assert not list(runtime.replicas())
    services.replica_retry(replica_id=replica.public_id, actor="test")
    becomes(replica, State.READY)


def test_a_row_that_was_moved_during_the_load_leaves_no_model_behind(
    runtime, artifact, monkeypatch
) -> None:
    real = services.replica_get

    def moved(replica_id: str) -> Replica:
        Replica.objects.filter(pk=replica_id).update(state=State.UNLOADED)
        return real(replica_id)

    with monkeypatch.context() as patched:
        patched.setattr(services, "replica_get", moved)
        replica = wish(artifact)
        becomes(replica, State.UNLOADED)
    becomes(wish(artifact, "second"), State.READY)
    assert [each.served_name for each in runtime.replicas()] == ["second"]


def test_a_dead_workers_row_says_so_once_the_database_is_back(
    runtime, artifact, monkeypatch
) -> None:
    replica = wish(artifact)
    becomes(replica, State.READY)
    with monkeypatch.context() as patched:
        met = fails(patched, "replica_transition", lambda _id, new, **_: new == State.FAILED)
        next(iter(runtime.replicas())).worker._on_failure("The step went wrong.")
        wait_for(lambda: len(met) > 2)
        assert not list(runtime.replicas())
    becomes(replica, State.FAILED)
    assert replica.failure_reason == "The step went wrong."


def test_a_locked_database_holds_up_no_generation_and_delays_an_unload(
    runtime, artifact, monkeypatch
) -> None:
    replica = wish(artifact)
    becomes(replica, State.READY)
    lease = runtime.lease("tiny")
    services.replica_request_unload(wanted="tiny", timeout_s=600, actor="test")
    becomes(replica, State.DRAINING)
    with locked(monkeypatch):
        request = SequenceRequest("r", (1, 2, 3), 4, frozenset(), SamplingParams(seed=1))
        stream = lease.replica.worker.submit(request)
        wait_for(lambda: stream.finish is not None)
        assert stream.usage.num_output_tokens == 4
        lease.release()
        time.sleep(0.3)
        assert list(runtime.replicas())
    becomes(replica, State.UNLOADED)
    assert not list(runtime.replicas())


def test_a_bug_met_while_looking_does_not_end_the_looking(runtime, artifact, monkeypatch) -> None:
    from registry import selectors

    real, met = selectors.replicas_to_load, []

    def buggy() -> list[Replica]:
        if len(met) < 2:
            met.append(1)
            raise ZeroDivisionError
        return real()

    monkeypatch.setattr(selectors, "replicas_to_load", buggy)
    becomes(wish(artifact), State.READY)
    assert met
