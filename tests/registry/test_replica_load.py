"""Asking for a replica (S13, S18, D7)."""

from __future__ import annotations

import pytest

from registry.errors import InvalidName, InvalidValue, NameInUse, PlacementRefused
from registry.models import AuditEvent, Job, Replica
from registry.notify import wanted_changed
from registry.selectors import replicas_overview, replicas_to_load
from registry.services import (
    replica_request,
    replica_request_unload,
    replica_retry,
    replica_transition,
)
from registry.states import State, Wanted
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db


def request(artifact, name="chat", **options):
    return replica_request(artifact=artifact, served_name=name, actor=ACTOR, **options)


def test_it_works(artifact):
    replica = request(artifact, context_len=1024)
    assert (replica.state, replica.wanted) == (State.REQUESTED, Wanted.LOADED)
    assert replicas_to_load() == [replica]
    job = replica.jobs.get()
    assert (job.kind, job.state, job.actor) == (Job.Kind.LOAD, Job.State.QUEUED, ACTOR)


def test_it_leaves_an_audit_row(artifact):
    replica = request(artifact)
    event = AuditEvent.objects.get(action="replica.load")
    assert (event.actor, event.target, event.outcome) == (ACTOR, "chat", "ok")
    assert event.detail["artifact"] == artifact.digest
    assert event.detail["replica"] == replica.pk


def test_a_refusal_is_audited_and_leaves_no_replica(artifact):
    with pytest.raises(InvalidName):
        request(artifact, name="no spaces")
    event = AuditEvent.objects.get()
    assert event.outcome == "refused"
    assert "is not a usable model name" in event.detail["refusal"]
    assert not Replica.objects.exists()


@pytest.mark.parametrize(
    "name", ["", "a b", "a" * 129, "x\n", "<script>", "a;b", "\x1b[31m", "a\x00", "\u202eabc"]
)
def test_unusable_names_are_refused(artifact, name):
    with pytest.raises(InvalidName, match="1 to 128 letters, digits"):
        request(artifact, name=name)


@pytest.mark.parametrize("name", ["a", "org/Model-1.5:q4_1", "模型", "a" * 128])
def test_plain_names_are_accepted(artifact, name):
    assert request(artifact, name=name).served_name == name


def test_a_second_replica_of_the_same_file_shares_the_name(artifact):
    """S18, D7: replicas of one file may serve one name."""
    first, second = request(artifact), request(artifact)
    assert replicas_overview() == [first, second]


def test_a_name_never_serves_two_files(artifact, make_artifact):
    """D7: 409 for the same name on another digest."""
    request(artifact)
    with pytest.raises(NameInUse, match="already serves another model file; unload it first"):
        request(make_artifact("Other"))


def test_a_name_is_free_again_after_the_unload(artifact, make_artifact):
    request(artifact)
    replica_request_unload(wanted="chat", actor=ACTOR)
    assert request(make_artifact("Other")).state == State.REQUESTED


def test_the_same_key_is_the_same_request(artifact):
    """A double click loads once."""
    first = request(artifact, request_key="k1")
    assert request(artifact, request_key="k1") == first
    assert Replica.objects.count() == 1
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("context_len", "said"),
    [
        (-1, "must lie between 0"),
        (1 << 70, "must lie between 0"),
        (4096, "was trained for 2,048 tokens"),
    ],
)
def test_impossible_context_lengths_are_refused(artifact, context_len, said):
    with pytest.raises(InvalidValue, match=said):
        request(artifact, context_len=context_len)


def test_dies_must_exist(artifact, two_cards):
    with pytest.raises(PlacementRefused, match=r"There is no die 7 on this host. Dies: 0, 1, 2, 3"):
        request(artifact, dies=[7])


def test_dies_are_named_once(artifact, two_cards):
    with pytest.raises(InvalidValue, match="names a die twice"):
        request(artifact, dies=[1, 1])


def test_replicas_of_a_name_use_other_dies(artifact, two_cards):
    """S62, D7: disjoint dies are welcome, overlapping ones refused."""
    request(artifact, dies=[0, 1])
    request(artifact, dies=[2, 3])
    with pytest.raises(PlacementRefused, match="Die 1 already holds a replica of 'chat'"):
        request(artifact, dies=[1])


def test_listeners_are_woken_after_the_commit(artifact, django_capture_on_commit_callbacks):
    heard = []

    def listen(**kwargs):
        heard.append(Replica.objects.count())

    wanted_changed.connect(listen)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            request(artifact)
            assert heard == []
        assert heard == [1]
    finally:
        wanted_changed.disconnect(listen)


def test_a_failed_replica_is_tried_again(artifact):
    replica = request(artifact)
    replica_transition(replica.pk, State.FAILED, reason="Out of memory.")
    replica_retry(replica_id=replica.pk, actor=ACTOR)
    again = replica_retry(replica_id=replica.pk, actor=ACTOR)
    assert (again.state, again.failure_reason) == (State.REQUESTED, "")
    assert replicas_to_load() == [replica]
    states = [job.state for job in replica.jobs.order_by("created_at")]
    assert states == [Job.State.FAILED, Job.State.QUEUED]
