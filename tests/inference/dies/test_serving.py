"""Replicas on dies: placed, charged exactly, restored, and left alone by a die that goes bad."""

from __future__ import annotations

import time

import pytest

from accel.cuda.die import own_bytes
from inference.engine.params import FinishReason
from registry import services
from registry.selectors import bound_bytes_by_die, dies_of
from registry.states import State
from tests.inference.dies.wishes import WAIT_S, answer, becomes, quarantined, wish
from tests.inference.engine.driving import read_all, request_of

pytestmark = pytest.mark.django_db(transaction=True)
GIB = 1 << 30


def test_a_host_with_dies_puts_models_on_them(start, runtime, artifact, emulated) -> None:
    start()
    replica = wish(artifact)
    becomes(replica, State.READY)
    assert replica.backend == "cuda"
    assert dies_of(replica) == (0,)
    assert next(iter(runtime.replicas())).dies == (0,)
    assert len(answer(runtime)) == 3


def test_the_binding_is_what_was_allocated(start, artifact) -> None:
    """S61: an estimate places it; what it is charged is exact, on every die it is split over."""
    start()
    becomes(wish(artifact, dies=[0, 1]), State.READY)
    assert bound_bytes_by_die() == {0: own_bytes(0), 1: own_bytes(1)}
    assert own_bytes(0) > 0 < own_bytes(1)


def test_a_split_over_the_dies_of_a_card_answers_the_same(start, runtime, artifact) -> None:
    start()
    becomes(wish(artifact, "whole", dies=[0]), State.READY)
    split = wish(artifact, "split", dies=[1, 0])
    becomes(split, State.READY)
    assert dies_of(split) == (0, 1)
    assert answer(runtime, "split") == answer(runtime, "whole")


def test_float_weights_take_half_when_asked(start, runtime, artifact) -> None:
    """D13."""
    start()
    becomes(wish(artifact, "plain", dies=[0]), State.READY)
    becomes(wish(artifact, "small", dies=[1], quantize=True), State.READY)
    bound = bound_bytes_by_die()
    matrices = artifact.weight_bytes
    assert bound[0] - bound[1] == pytest.approx(matrices * (1 - 34 / 64), rel=0.05)
    assert len(answer(runtime, "small")) == 3


def test_replicas_of_a_name_go_to_different_dies(start, runtime, artifact) -> None:
    start()
    replicas = [wish(artifact), wish(artifact)]
    for replica in replicas:
        becomes(replica, State.READY)
    assert sorted(dies_of(replica) for replica in replicas) == [(0,), (1,)]
    third = wish(artifact)
    becomes(third, State.FAILED)
    assert "holds a replica of the same name already" in third.failure_reason


def test_an_unload_gives_the_bytes_back(start, artifact, emulated) -> None:
    start()
    before = emulated.used_bytes(0)
    replica = wish(artifact)
    becomes(replica, State.READY)
    services.replica_request_unload(wanted="tiny", actor="test")
    becomes(replica, State.UNLOADED)
    deadline = time.monotonic() + WAIT_S
    while emulated.used_bytes(0) != before and time.monotonic() < deadline:
        time.sleep(0.02)  # the row says so just before it is
    assert emulated.used_bytes(0) == before
    assert bound_bytes_by_die() == {}


def test_what_does_not_fit_is_refused_with_the_limit(start, artifact, emulated) -> None:
    emulated.reset(num_dies=2, memory_bytes=GIB + (1 << 16))
    start()
    replica = wish(artifact)
    becomes(replica, State.FAILED)
    assert "the freest die, 0, has 64 KiB free" in replica.failure_reason


@pytest.mark.parametrize("phase", ["compiling kernels", "uploading weights"])
def test_a_server_that_stops_during_a_load_leaves_nothing(start, artifact, emulated, phase) -> None:
    """The load is given up at its next word; its dies are closed and its row waits for the next start."""
    supervisor = start()

    def stop_there(progress) -> None:
        if progress.phase == phase:
            supervisor.load_no_more()

    supervisor.watchers.append(stop_there)
    replica = wish(artifact, dies=[0, 1])
    becomes(replica, State.LOADING)
    supervisor.stop()
    replica.refresh_from_db()
    assert replica.state == State.REQUESTED
    assert emulated.num_contexts() == 0
    assert (own_bytes(0), own_bytes(1)) == (0, 0)
    assert bound_bytes_by_die() == {}


def test_a_restart_restores_replicas_and_bindings(start, runtime, artifact, emulated) -> None:
    """The rows of a process that was killed hold no die; what was wanted is placed anew."""
    first = start()
    replica = wish(artifact, dies=[1])
    becomes(replica, State.READY)
    bound = bound_bytes_by_die()
    first.stop()
    assert bound_bytes_by_die() == {}
    start()
    becomes(replica, State.READY)
    assert bound_bytes_by_die() == bound
    assert answer(runtime)


def test_a_die_that_is_gone_after_a_restart_is_named(start, artifact, emulated) -> None:
    first = start()
    replica = wish(artifact, dies=[1])
    becomes(replica, State.READY)
    first.stop()
    emulated.reset(num_dies=1)
    start()
    becomes(replica, State.FAILED)
    assert replica.failure_reason == "There is no die 1 on this host. Dies: 0."


def test_a_die_that_goes_bad_is_left_out_and_the_others_serve(
    start, runtime, artifact, emulated
) -> None:
    """Quarantine: the replica fails with the reason, a retry goes elsewhere, the neighbour answers on."""
    start()
    lost, kept = wish(artifact, "lost", dies=[0]), wish(artifact, "kept", dies=[1])
    becomes(lost, State.READY)
    becomes(kept, State.READY)
    expected = answer(runtime, "kept")
    emulated.break_die(0)
    with runtime.lease("lost") as lease:
        stream = lease.replica.worker.submit(request_of([1, 2, 3], max_tokens=3))
        read_all(stream, WAIT_S)
    assert stream.finish.reason is FinishReason.ERROR
    becomes(lost, State.FAILED)
    assert lost.failure_reason.startswith("Die 0 failed: ")
    quarantined(True, False)
    assert answer(runtime, "kept") == expected
    again = wish(artifact, "again")
    becomes(again, State.READY)
    assert dies_of(again) == (1,)
    named = wish(artifact, "named", dies=[0])
    becomes(named, State.FAILED)
    assert named.failure_reason.startswith("Die 0 has failed (")
