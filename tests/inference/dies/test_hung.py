"""A die that hangs: its replica fails in time, requests end, others answer on, and nothing waits for it."""

from __future__ import annotations

import time

import pytest

from accel.cuda import hung
from accel.cuda.die import own_bytes
from inference import dies as dies_module
from inference import placing
from inference import supervisor as supervisor_module
from inference.engine.params import FinishReason
from registry import services
from registry.selectors import bound_bytes_by_die, dies_of
from registry.states import State
from tests.emulator.emulated_driver import LAUNCH
from tests.inference.dies.wishes import WAIT_S, answer, becomes, quarantined, wish
from tests.inference.engine.driving import read_all, request_of

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_S = 1.0


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch) -> None:
    monkeypatch.setattr(hung, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(hung, "REST_S", PATIENCE_S / 10)
    monkeypatch.setattr(dies_module, "LOOK_S", 0.1)


def submit(runtime, name: str = "tiny"):
    with runtime.lease(name) as lease:
        return lease.replica.worker.submit(request_of([1, 2, 3], max_tokens=3))


def unload(replica, mode: str = "drain") -> None:
    services.replica_request_unload(wanted=replica.public_id, mode=mode, actor="test")
    becomes(replica, State.UNLOADED)


def test_a_request_ends_and_its_die_is_left_out(start, runtime, artifact, emulated) -> None:
    start()
    lost, kept = wish(artifact, "lost", dies=[0]), wish(artifact, "kept", dies=[1])
    becomes(lost, State.READY)
    becomes(kept, State.READY)
    expected = answer(runtime, "kept")
    emulated.hang_at_launch(5)
    started_s = time.monotonic()
    stream = submit(runtime, "lost")
    while not emulated.is_hung(0):
        time.sleep(0.01)
    assert answer(runtime, "kept") == expected, "while nobody knows yet"
    read_all(stream, WAIT_S)
    assert time.monotonic() - started_s < PATIENCE_S + 10
    assert stream.finish.reason is FinishReason.ERROR
    assert stream.finish.message == (
        "The model failed while it was generating. Please retry the request."
    )
    becomes(lost, State.FAILED)
    assert lost.failure_reason.startswith("Die 0 failed: it hangs: ")
    quarantined(True, False)
    assert answer(runtime, "kept") == expected
    assert list(bound_bytes_by_die()) == [1]
    again = wish(artifact, "again")
    becomes(again, State.READY)
    assert dies_of(again) == (1,)
    named = wish(artifact, "named", dies=[0])
    becomes(named, State.FAILED)
    assert named.failure_reason.startswith("Die 0 has failed (it hangs: ")
    unload(lost)


def test_a_neighbour_on_the_die_fails_when_it_is_asked(start, runtime, artifact, emulated) -> None:
    """Whose context is not the one that hangs, but whose kernels come after it."""
    start()
    replicas = [wish(artifact, name, dies=[0]) for name in ("lost", "neighbour")]
    for replica in replicas:
        becomes(replica, State.READY)
    emulated.hang_at_launch(1)
    streams = [submit(runtime, name) for name in ("lost", "neighbour")]
    for stream, replica in zip(streams, replicas, strict=True):
        read_all(stream, WAIT_S)
        assert stream.finish.reason is FinishReason.ERROR
        becomes(replica, State.FAILED)
    assert own_bytes(0) == 0


@pytest.mark.parametrize("mode", ["drain", "force"])
def test_an_unload_returns_while_the_die_hangs(start, runtime, artifact, emulated, mode) -> None:
    start()
    replica = wish(artifact, dies=[0])
    becomes(replica, State.READY)
    emulated.hang_at_launch(1)
    stream = submit(runtime)
    services.replica_request_unload(wanted="tiny", mode=mode, actor="test")
    read_all(stream, WAIT_S)
    assert stream.finish.reason is FinishReason.ERROR
    becomes(replica, State.UNLOADED, State.FAILED)
    quarantined(True, False)
    assert own_bytes(0) == 0


def test_an_idle_replica_of_a_hung_die_is_unloaded(start, artifact, emulated) -> None:
    start()
    replica = wish(artifact, dies=[0])
    becomes(replica, State.READY)
    emulated.hang_die(0)
    unload(replica)
    assert bound_bytes_by_die() == {}


def test_a_server_stops_while_a_die_hangs(start, runtime, artifact, emulated) -> None:
    supervisor = start()
    becomes(wish(artifact, dies=[0]), State.READY)
    emulated.hang_at_launch(1)
    stream = submit(runtime)
    supervisor.stop()
    read_all(stream, WAIT_S)
    assert stream.finish.reason is FinishReason.ERROR


@pytest.mark.parametrize("doing", ["a step", "nothing", "an unload"])
def test_a_server_stops_before_a_hung_die_has_had_its_time(
    start, runtime, artifact, emulated, monkeypatch, doing
) -> None:
    """Whoever stops it has less patience than work on a die is given."""
    monkeypatch.setattr(hung, "PATIENCE_S", 600.0)
    monkeypatch.setattr(supervisor_module, "DIE_WAIT_S", 0.5)
    supervisor = start()
    replica = wish(artifact, dies=[0])
    becomes(replica, State.READY)
    if doing == "a step":
        emulated.hang_at_launch(1)
        submit(runtime)
    else:
        emulated.hang_die(0)
    if doing == "an unload":
        services.replica_request_unload(wanted="tiny", mode="force", actor="test")
        becomes(replica, State.UNLOADED)
    started_s = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - started_s < WAIT_S / 2
    assert own_bytes(0) == 0, "abandoned, or the end of the process would wait for it"


def test_a_load_elsewhere_does_not_wait_for_an_unload_that_hangs(
    start, runtime, artifact, emulated, monkeypatch
) -> None:
    monkeypatch.setattr(hung, "PATIENCE_S", 600.0)
    monkeypatch.setattr(placing, "FREEING_S", 0.1)
    monkeypatch.setattr(supervisor_module, "DIE_WAIT_S", 0.5)
    start()
    lost, other = wish(artifact, "lost", dies=[0]), wish(artifact, "other", dies=[1])
    becomes(lost, State.READY)
    becomes(other, State.READY)
    emulated.hang_die(0)
    unload(lost)
    unload(other)
    assert bound_bytes_by_die() == {}
    kept = wish(artifact, "kept", dies=[1])
    becomes(kept, State.READY)
    assert own_bytes(0) > 0, "what is being freed is still held"
    assert answer(runtime, "kept")


@pytest.mark.parametrize("dies", [[0], [0, 1]], ids=["one die", "split"])
def test_a_load_whose_upload_hangs(start, runtime, artifact, emulated, dies) -> None:
    supervisor = start()

    def hang_at_the_first_chunk(progress) -> None:
        if progress.phase == "uploading weights" and progress.share:
            emulated.hang_die(0)

    supervisor.watchers.append(hang_at_the_first_chunk)
    lost = wish(artifact, "lost", dies=dies)
    becomes(lost, State.FAILED)
    assert lost.failure_reason.startswith("Die 0 failed: it hangs: ")
    quarantined(True, False)
    supervisor.watchers.clear()
    becomes(wish(artifact, "kept"), State.READY)  # the next load is not held up
    assert answer(runtime, "kept")


@pytest.mark.parametrize("where", ["first die", "second die"])
def test_a_load_whose_first_step_hangs_on_one_die_of_two(
    start, runtime, artifact, emulated, where
) -> None:
    start()
    before = emulated.count(LAUNCH)
    counted = wish(artifact, "counted", dies=[0, 1])
    becomes(counted, State.READY)
    total = emulated.count(LAUNCH) - before
    unload(counted)
    emulated.hang_at_launch(1 if where == "first die" else total)
    lost = wish(artifact, "lost", dies=[0, 1])
    becomes(lost, State.FAILED)
    named = 0 if where == "first die" else 1
    assert lost.failure_reason.startswith(f"Die {named} failed: it hangs: ")
    quarantined(named == 0, named == 1)
    becomes(wish(artifact, "kept"), State.READY)
    assert answer(runtime, "kept")


@pytest.mark.parametrize("nth", [1, 20, 40])
def test_a_request_of_a_split_replica_ends(start, runtime, artifact, emulated, nth) -> None:
    start()
    lost = wish(artifact, "lost", dies=[0, 1])
    becomes(lost, State.READY)
    emulated.hang_at_launch(nth)
    stream = submit(runtime, "lost")
    read_all(stream, WAIT_S)
    assert stream.finish.reason is FinishReason.ERROR
    becomes(lost, State.FAILED)
    hangs = [emulated.is_hung(die) for die in (0, 1)]
    assert lost.failure_reason.startswith(f"Die {hangs.index(True)} failed: it hangs: ")
    quarantined(*hangs)
    becomes(wish(artifact, "kept"), State.READY)
    assert answer(runtime, "kept")
    unload(lost)
