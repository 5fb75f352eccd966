"""Wishes in the database become replicas of this process, and the rows say what became of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference import catalogue
from inference.loading import EngineSettings
from inference.runtime import Runtime
from inference.supervisor import AlreadyRunning, LoadProgress, Supervisor
from registry import services
from registry.models import Artifact, Replica
from registry.states import State
from tests.fakes.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30
SETTINGS = EngineSettings(
    backend="reference", kernel_cache_dir=Path("/nonexistent"), num_threads=1, context_len=64
)


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def start(runtime: Runtime, tmp_path: Path) -> Iterator[Callable[[], Supervisor]]:
    running: list[Supervisor] = []

    def start_one() -> Supervisor:
        supervisor = Supervisor(runtime, SETTINGS, tmp_path, drain_s=5)
        supervisor.start()
        running.append(supervisor)
        return supervisor

    yield start_one
    for supervisor in running:
        supervisor.stop()


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    return catalogue.register_file(write_tiny_gguf(tmp_path / "tiny.gguf"), source="test")


def wish(artifact: Artifact, name: str = "tiny") -> Replica:
    return services.replica_request(artifact=artifact, served_name=name, actor="test")


def becomes(replica: Replica, *states: State) -> State:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        replica.refresh_from_db()
        if replica.state in states:
            return State(replica.state)
        time.sleep(0.02)
    raise AssertionError(f"{replica} stayed {replica.state}: {replica.failure_reason}")


def test_a_wish_is_loaded(start, runtime, artifact) -> None:
    supervisor = start()
    seen: list[LoadProgress] = []
    supervisor.watchers.append(seen.append)
    replica = wish(artifact)
    becomes(replica, State.READY)
    assert [r.replica_id for r in runtime.replicas()] == [replica.public_id]
    assert (replica.actual_context_len, replica.num_slots, replica.backend) == (64, 8, "reference")
    assert [t.new for t in replica.transitions.all()] == ["placed", "loading", "ready"]
    assert (seen[-1].state, seen[-1].context_len) == (State.READY, 64)


def test_a_wish_from_before_the_start_is_restored(start, runtime, artifact) -> None:
    """A row that an earlier process left as ready is loaded again before it says so."""
    replica = wish(artifact)
    for state in (State.PLACED, State.LOADING, State.READY):
        services.replica_transition(replica.public_id, state)
    start()
    becomes(replica, State.READY)
    assert [t.new for t in replica.transitions.all()][3:] == [
        "requested",
        "placed",
        "loading",
        "ready",
    ]
    assert len(list(runtime.replicas())) == 1


def test_a_file_that_is_gone_fails_with_the_reason(start, runtime, artifact) -> None:
    Path(artifact.path).unlink()
    start()
    replica = wish(artifact)
    becomes(replica, State.FAILED)
    assert "tiny.gguf" in replica.failure_reason
    assert not list(runtime.replicas())


def test_a_file_that_was_replaced_by_rubbish_fails_with_the_reason(start, artifact) -> None:
    Path(artifact.path).write_bytes(b"GGUF rubbish")
    start()
    replica = wish(artifact)
    becomes(replica, State.FAILED)
    assert replica.failure_reason


def test_a_failed_load_can_be_tried_again(start, artifact) -> None:
    content = Path(artifact.path).read_bytes()
    Path(artifact.path).unlink()
    start()
    replica = wish(artifact)
    becomes(replica, State.FAILED)
    Path(artifact.path).write_bytes(content)
    services.replica_retry(replica_id=replica.public_id, actor="test")
    becomes(replica, State.READY)


def test_an_unwanted_replica_is_unloaded(start, runtime, artifact) -> None:
    start()
    replica = wish(artifact)
    becomes(replica, State.READY)
    services.replica_request_unload(wanted="tiny", actor="test")
    becomes(replica, State.UNLOADED)
    assert not list(runtime.replicas())


def test_a_drain_waits_for_the_lease_and_can_be_forced(start, runtime, artifact) -> None:
    start()
    replica = wish(artifact)
    becomes(replica, State.READY)
    lease = runtime.lease("tiny")
    services.replica_request_unload(wanted="tiny", timeout_s=600, actor="test")
    becomes(replica, State.DRAINING)
    time.sleep(0.1)
    assert list(runtime.replicas())
    services.replica_request_unload(wanted="tiny", mode="force", actor="test")
    becomes(replica, State.UNLOADED)
    lease.release()


def test_a_cancelled_unload_leaves_the_model_serving(start, runtime, artifact) -> None:
    """D4."""
    start()
    replica = wish(artifact)
    becomes(replica, State.READY)
    with runtime.lease("tiny"):
        services.replica_request_unload(wanted="tiny", timeout_s=600, actor="test")
        becomes(replica, State.DRAINING)
        services.replica_cancel_unload(replica_id=replica.public_id, actor="test")
        becomes(replica, State.READY)
    deadline = time.monotonic() + WAIT_S
    while not runtime.models():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert runtime.lease("tiny").replica.replica_id == replica.public_id


def test_a_dead_worker_fails_its_replica_alone(start, runtime, artifact, monkeypatch) -> None:
    start()
    doomed, other = wish(artifact, "doomed"), wish(artifact, "other")
    becomes(doomed, State.READY)
    becomes(other, State.READY)
    start_failure = next(r for r in runtime.replicas() if r.served_name == "doomed")
    start_failure.worker._on_failure("The step went wrong.")
    becomes(doomed, State.FAILED)
    assert doomed.failure_reason == "The step went wrong."
    assert [m.name for m in runtime.models()] == ["other"]


def test_a_second_supervisor_of_the_same_folder_is_refused(start) -> None:
    start()
    with pytest.raises(AlreadyRunning):
        start()


def test_names_to_load_first_are_loaded_in_their_order(runtime, artifact, tmp_path) -> None:
    """The others follow as they were wanted; the first one named answers requests without a name."""
    for name in ("old", "new", "second", "first"):
        replica = wish(artifact, name)
        for state in (State.PLACED, State.LOADING, State.READY):  # by an earlier process
            services.replica_transition(replica.public_id, state)
    supervisor = Supervisor(runtime, SETTINGS, tmp_path, 5, load_first=["first", "second"])
    supervisor.start()
    try:
        for replica in Replica.objects.all():
            becomes(replica, State.READY)
        assert [r.served_name for r in runtime.replicas()] == ["first", "second", "old", "new"]
        with runtime.lease(None) as lease:
            assert lease.replica.served_name == "first"
    finally:
        supervisor.stop()


def test_a_stop_gives_up_the_load_in_progress(runtime, artifact, tmp_path) -> None:
    """At its next word of progress; the wish stays, for the next start."""
    supervisor = Supervisor(runtime, SETTINGS, tmp_path, 5)
    said: list[str] = []

    def stop_in_the_middle(progress: LoadProgress) -> None:
        said.append(progress.phase)
        supervisor.load_no_more()

    supervisor.watchers.append(stop_in_the_middle)
    loading, waiting = wish(artifact, "loading"), wish(artifact, "waiting")
    supervisor.start()
    becomes(loading, State.LOADING)
    supervisor._loader.join(WAIT_S)
    supervisor.stop()
    assert len(said) == 1
    assert not list(runtime.replicas())
    loading.refresh_from_db()
    waiting.refresh_from_db()
    assert loading.state == waiting.state == State.REQUESTED
    assert loading.transitions.last().reason == "The server was stopped."


def test_a_stopped_supervisor_may_be_stopped_again(start) -> None:
    supervisor = start()
    supervisor.stop()
    supervisor.stop()


def test_a_bug_met_by_one_model_does_not_keep_others_out(start, artifact, monkeypatch) -> None:
    from inference import supervisor as module

    load = module.load_replica

    def buggy(plan, *args, **kwargs):
        if plan.served_name == "buggy":
            raise ZeroDivisionError
        return load(plan, *args, **kwargs)

    monkeypatch.setattr(module, "load_replica", buggy)
    start()
    buggy_one, other = wish(artifact, "buggy"), wish(artifact, "other")
    assert becomes(other, State.READY)
    assert becomes(buggy_one, State.FAILED)
    assert "bug" in buggy_one.failure_reason
