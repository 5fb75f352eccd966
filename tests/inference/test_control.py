"""What a load by request asks of the registry. Nothing is running: the rows are the outcome."""

from __future__ import annotations

import pytest

from inference import control
from registry.errors import NameInUse, PlacementRefused
from registry.models import AuditEvent, Replica
from registry.services import (
    MeasuredDie,
    artifact_register,
    binding_create,
    dies_measured,
    dies_record,
    replica_request_unload,
    replica_transition,
)
from registry.states import State

pytestmark = pytest.mark.django_db

GIB = 1 << 30


@pytest.fixture(autouse=True)
def host_memory(monkeypatch):
    """One GiB, until a test takes it away."""
    available = [GIB]
    monkeypatch.setattr(control, "available_bytes", lambda: available[0])
    return available


def make_artifact(digit="0"):
    return artifact_register(
        path=f"/m/{digit}.gguf",
        digest=f"sha256:{digit * 64}",
        source="test",
        info={"weight_bytes": GIB // 2, "context_len": 1024},
    )


@pytest.fixture
def artifact(db):
    return make_artifact()


def load(artifact, name="chat", **changes):
    request = control.LoadRequest(name=name, artifact=str(artifact.pk), wait=False, **changes)
    return control.load(request, "key ops")


def test_repeating_a_load_finds_its_replica(artifact):
    """Also when the memory would not do for a second one."""
    first = load(artifact)
    replica_transition(first.replica_id, State.PLACED)
    again = load(artifact)
    assert (again.replica_id, again.state) == (first.replica_id, "placed")
    assert Replica.objects.count() == 1
    assert AuditEvent.objects.first().detail["replica"] == first.replica_id


def test_a_load_that_holds_its_memory_is_not_measured_again(artifact, host_memory):
    first = load(artifact)
    replica_transition(first.replica_id, State.PLACED)
    host_memory[0] = 0
    assert load(artifact).replica_id == first.replica_id
    with pytest.raises(PlacementRefused):
        load(artifact, another=True)


def test_one_more_can_be_asked_for(artifact):
    assert load(artifact).replica_id != load(artifact, another=True).replica_id


def test_other_names_are_other_replicas(artifact):
    assert load(artifact).replica_id != load(artifact, "other").replica_id


def test_another_file_does_not_get_a_name_in_use(artifact):
    load(artifact)
    with pytest.raises(NameInUse):
        load(make_artifact("1"))


def test_a_failed_load_is_tried_again(artifact):
    first = load(artifact)
    replica_transition(first.replica_id, State.FAILED, reason="No room.")
    again = load(artifact)
    assert (again.replica_id, again.state, again.reason) == (first.replica_id, "requested", "")


def test_what_is_being_unloaded_is_loaded_anew(artifact):
    first = load(artifact)
    for state in (State.PLACED, State.LOADING, State.READY):
        replica_transition(first.replica_id, state)
    replica_request_unload(wanted="chat", actor="test")
    assert load(artifact).replica_id != first.replica_id


def test_a_quantised_load_is_another_replica(artifact):
    """D13: what was asked for is never answered with something else."""
    plain, small = load(artifact), load(artifact, quantize=True)
    assert plain.replica_id != small.replica_id
    assert Replica.objects.get(pk=small.replica_id).quantize
    assert load(artifact, quantize=True).replica_id == small.replica_id


@pytest.fixture
def two_dies(db):
    """Of 12 GiB, 11 GiB of them budget."""
    dies_record(
        [MeasuredDie(o, 0, "Tesla K80", 12 * GIB, 11 * GIB, 0, uuid=f"GPU-{o}") for o in range(2)]
    )


def test_dies_are_unknown_to_a_host_without_any(artifact):
    with pytest.raises(control.UnsupportedOption, match="'dies' is not supported"):
        load(artifact, dies=(0,))


def test_a_load_names_its_dies(artifact, two_dies, host_memory):
    host_memory[0] = 0
    asked = load(artifact, dies=(1,))
    assert asked.dies == (1,)
    assert Replica.objects.get().dies == [1]


def test_a_load_that_fits_no_die_is_refused_at_once(artifact, two_dies):
    """S42: with the limit, before anything is wanted."""
    dies_measured([MeasuredDie(o, 0, "", 12 * GIB, 11 * GIB, 11 * GIB) for o in range(2)])
    with pytest.raises(PlacementRefused, match="the freest die, 0, has 0 bytes free"):
        load(artifact)
    assert not Replica.objects.exists()


def test_a_status_tells_the_dies_it_is_bound_to(artifact, two_dies):
    first = load(artifact)
    assert first.dies == ()
    binding_create(replica_id=first.replica_id, die_bytes={0: 1, 1: 2})
    assert control.status(Replica.objects.get()).dies == (0, 1)


def test_every_binding_of_a_die_is_listed(artifact, two_dies):
    """S8, K10."""
    for name in ("a", "b"):
        binding_create(replica_id=load(artifact, name).replica_id, die_bytes={1: GIB})
    answer = control.dies()
    assert answer.reason == ""
    first, second = answer.dies
    assert (first["uuid"], first["free_bytes"], first["bindings"]) == ("GPU-0", 11 * GIB, ())
    assert [b["served_name"] for b in second["bindings"]] == ["a", "b"]
    assert (second["bound_bytes"], second["free_bytes"]) == (2 * GIB, 9 * GIB)


def test_a_host_without_dies_says_why(db):
    assert control.dies().reason.startswith("No CUDA driver was found")
