"""Unloading, and changing one's mind (S21, D4)."""

from __future__ import annotations

import pytest

from registry.errors import (
    InvalidTransition,
    InvalidValue,
    ReplicaNotFound,
    UnloadNotCancelable,
)
from registry.models import AuditEvent, Job
from registry.selectors import replicas_overview, replicas_to_load, replicas_to_unload
from registry.services import (
    replica_cancel_unload,
    replica_request,
    replica_request_unload,
    replica_transition,
)
from registry.states import State, Wanted
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db


def replica_in(artifact, state, name="chat"):
    replica = replica_request(artifact=artifact, served_name=name, actor=ACTOR)
    for step in (State.PLACED, State.LOADING, State.READY, State.DRAINING):
        if replica.state == state:
            break
        replica = replica_transition(replica.pk, step)
    return replica


def unload(wanted, **options):
    return replica_request_unload(wanted=wanted, actor=ACTOR, **options)


def test_it_works(artifact):
    replica = replica_in(artifact, State.READY)
    assert unload("chat", timeout_s=5.0) == [replica]
    replica.refresh_from_db()
    assert (replica.wanted, replica.state) == (Wanted.UNLOADED, State.READY)
    assert (replica.unload_mode, replica.unload_timeout_s) == ("drain", 5.0)
    assert replicas_to_unload() == [replica]
    assert replica.jobs.get(kind=Job.Kind.UNLOAD).state == Job.State.QUEUED


def test_a_name_means_all_its_replicas(artifact):
    """D4, K2: one call unloads every replica of a name."""
    both = [replica_in(artifact, State.READY), replica_in(artifact, State.READY)]
    assert set(unload("chat")) == set(both)


def test_an_id_means_one_replica(artifact):
    first, second = replica_in(artifact, State.READY), replica_in(artifact, State.READY)
    assert unload(second.pk) == [second]
    first.refresh_from_db()
    assert first.wanted == Wanted.LOADED


@pytest.mark.parametrize("state", [State.REQUESTED, State.FAILED])
def test_what_holds_nothing_is_unloaded_at_once(artifact, state):
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    if state is State.FAILED:
        replica_transition(replica.pk, State.FAILED, reason="No room.")
    (replica,) = unload("chat")
    assert replica.state == State.UNLOADED
    assert replicas_overview() == [] == replicas_to_load()
    assert not replica.jobs.filter(state__in=Job.OPEN).exists()


@pytest.mark.parametrize("wanted", ["nothing", "", "x" * 5000])
def test_unknown_names_are_refused(artifact, wanted):
    with pytest.raises(ReplicaNotFound, match="No loaded model or replica is called"):
        unload(wanted)
    assert AuditEvent.objects.get().outcome == "refused"


def test_an_unloaded_name_is_unknown(artifact):
    replica_in(artifact, State.REQUESTED)
    unload("chat")
    with pytest.raises(ReplicaNotFound):
        unload("chat")


def test_asking_twice_is_asking_once(artifact):
    replica = replica_in(artifact, State.READY)
    unload("chat")
    unload("chat")
    assert replica.jobs.filter(kind=Job.Kind.UNLOAD).count() == 1


def test_force_overrules_a_drain_and_not_the_reverse(artifact):
    replica_in(artifact, State.DRAINING)
    for mode, kept in (("drain", "drain"), ("force", "force"), ("drain", "force")):
        (replica,) = unload("chat", mode=mode)
        assert replica.unload_mode == kept


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "kill"}, "mode must be drain or force"),
        ({"timeout_s": -1.0}, "timeout_s must lie between 0 and 86400"),
        ({"timeout_s": float("nan")}, "timeout_s must lie between 0 and 86400"),
    ],
)
def test_bad_options_are_refused(artifact, options, said):
    replica = replica_in(artifact, State.READY)
    with pytest.raises(InvalidValue, match=said):
        unload("chat", **options)
    replica.refresh_from_db()
    assert replica.wanted == Wanted.LOADED


def test_a_drain_can_be_cancelled(artifact):
    """D4: draining becomes ready again."""
    replica = replica_in(artifact, State.READY)
    unload("chat")
    replica_transition(replica.pk, State.DRAINING)
    replica = replica_cancel_unload(replica_id=replica.pk, actor=ACTOR)
    assert (replica.state, replica.wanted, replica.unload_mode) == ("ready", "loaded", "")
    assert replica.jobs.get(kind=Job.Kind.UNLOAD).state == Job.State.CANCELED
    assert replicas_to_unload() == []


def test_an_unload_nobody_took_up_can_be_cancelled(artifact):
    replica = replica_in(artifact, State.LOADING)
    unload("chat")
    replica = replica_cancel_unload(replica_id=replica.pk, actor=ACTOR)
    assert (replica.state, replica.wanted) == (State.LOADING, Wanted.LOADED)
    assert replica.jobs.get(kind=Job.Kind.UNLOAD).state == Job.State.CANCELED
    assert replica.jobs.get(kind=Job.Kind.LOAD).state == Job.State.RUNNING


def test_cancelling_twice_is_cancelling_once(artifact):
    replica = replica_in(artifact, State.READY)
    unload("chat")
    for _ in range(2):
        replica = replica_cancel_unload(replica_id=replica.pk, actor=ACTOR)
    assert replica.wanted == Wanted.LOADED


def test_a_finished_unload_cannot_be_cancelled(artifact):
    replica = replica_in(artifact, State.READY)
    unload("chat")
    replica_transition(replica.pk, State.DRAINING)
    replica_transition(replica.pk, State.UNLOADED)
    with pytest.raises(UnloadNotCancelable, match="is unloaded: there is no unload left to cancel"):
        replica_cancel_unload(replica_id=replica.pk, actor=ACTOR)


def test_whoever_unloads_learns_of_the_cancellation(artifact):
    """The move to unloaded, made before memory is freed, is refused once the unload is cancelled."""
    replica = replica_in(artifact, State.READY)
    unload("chat")
    replica_transition(replica.pk, State.DRAINING)
    replica_cancel_unload(replica_id=replica.pk, actor=ACTOR)
    with pytest.raises(InvalidTransition, match="is ready and cannot become unloaded"):
        replica_transition(replica.pk, State.UNLOADED)


def test_an_unload_asked_for_during_the_load_is_still_to_come(artifact):
    """Becoming ready does not cancel it."""
    replica = replica_in(artifact, State.LOADING)
    unload("chat")
    replica = replica_transition(replica.pk, State.READY)
    assert replica.wanted == Wanted.UNLOADED
    assert replicas_to_unload() == [replica]
    assert replica.jobs.get(kind=Job.Kind.UNLOAD).state == Job.State.QUEUED
