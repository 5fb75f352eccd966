"""Charging dies and giving memory back (S54-S56, S61-S64, D6, D8)."""

from __future__ import annotations

import pytest

from registry.errors import InvalidValue, PlacementRefused
from registry.models import Binding, BindingShare, Card, Die
from registry.selectors import bound_bytes_by_die, die_rooms, dies_overview
from registry.services import (
    binding_create,
    binding_release,
    binding_resize,
    die_record,
    dies_measured,
    replica_request,
)
from tests.registry.conftest import ACTOR, GIB, measured

pytestmark = pytest.mark.django_db


@pytest.fixture
def make_replica(artifact):
    return lambda name="chat": replica_request(artifact=artifact, served_name=name, actor=ACTOR)


def test_it_charges_every_die_it_names(make_replica, two_cards):
    binding_create(replica_id=make_replica().pk, die_bytes={0: 3 * GIB, 1: 2 * GIB})
    assert bound_bytes_by_die() == {0: 3 * GIB, 1: 2 * GIB}
    assert [die.free_bytes for die in dies_overview()] == [8 * GIB, 9 * GIB, 11 * GIB, 11 * GIB]
    assert [room.used_bytes for room in die_rooms()] == [3 * GIB, 2 * GIB, 0, 0]


def test_room_is_checked_again_and_all_or_nothing_is_bound(make_replica, two_cards):
    """S61: the place/bind race ends in a refusal that leaves nothing behind."""
    binding_create(replica_id=make_replica("first").pk, die_bytes={1: 9 * GIB})
    with pytest.raises(PlacementRefused) as refused:
        binding_create(replica_id=make_replica("second").pk, die_bytes={0: GIB, 1: 3 * GIB})
    assert "second needs 3.0 GiB on die 1, which has 2.0 GiB free" in refused.value.reason
    assert bound_bytes_by_die() == {1: 9 * GIB}
    assert Binding.objects.count() == 1


def test_what_others_use_is_not_given_away(make_replica, two_cards):
    """S55, D8: external use counts, as last measured."""
    dies_measured([measured(0, external_bytes=10 * GIB)])
    with pytest.raises(PlacementRefused, match=r"which has 1\.0 GiB free"):
        binding_create(replica_id=make_replica().pk, die_bytes={0: 2 * GIB})


def test_release_is_by_id_and_once(make_replica, two_cards):
    """D6: never by name; a second release changes nothing."""
    first = binding_create(replica_id=make_replica().pk, die_bytes={0: GIB})
    second = binding_create(replica_id=make_replica().pk, die_bytes={0: 2 * GIB})
    assert binding_release(second.pk)
    assert not binding_release(second.pk)
    assert bound_bytes_by_die() == {0: GIB}
    assert binding_release(first.pk)
    assert bound_bytes_by_die() == {}


def test_an_estimate_becomes_the_exact_bytes(make_replica, two_cards):
    replica = make_replica()
    binding = binding_create(replica_id=replica.pk, die_bytes={0: 5 * GIB, 1: 5 * GIB})
    assert binding_resize(replica_id=replica.pk, die_bytes={0: 11 * GIB, 1: GIB}) == binding
    assert bound_bytes_by_die() == {0: 11 * GIB, 1: GIB}


def test_exact_bytes_without_room_leave_the_estimate(make_replica, two_cards):
    binding_create(replica_id=make_replica("other").pk, die_bytes={1: 8 * GIB})
    replica = make_replica()
    binding_create(replica_id=replica.pk, die_bytes={0: 5 * GIB})
    with pytest.raises(PlacementRefused, match=r"which has 3\.0 GiB free"):
        binding_resize(replica_id=replica.pk, die_bytes={0: GIB, 1: 4 * GIB})
    assert bound_bytes_by_die() == {0: 5 * GIB, 1: 8 * GIB}


def test_there_is_nothing_to_resize_without_a_binding(make_replica, two_cards):
    with pytest.raises(InvalidValue, match="holds no memory"):
        binding_resize(replica_id=make_replica().pk, die_bytes={0: GIB})


def test_a_replica_holds_one_binding(make_replica, two_cards):
    replica = make_replica()
    binding = binding_create(replica_id=replica.pk, die_bytes={0: GIB})
    with pytest.raises(InvalidValue, match="holds memory already"):
        binding_create(replica_id=replica.pk, die_bytes={1: GIB})
    binding_release(binding.pk)
    assert binding_create(replica_id=replica.pk, host_bytes=GIB).host_bytes == GIB


@pytest.mark.parametrize(("ordinal", "said"), [(9, "does not exist"), (0, "has failed")])
def test_dies_that_cannot_be_used_are_refused(make_replica, two_cards, ordinal, said):
    Die.objects.filter(ordinal=0).update(failure="fell off the bus")
    with pytest.raises(PlacementRefused, match=f"Die {ordinal} {said}"):
        binding_create(replica_id=make_replica().pk, die_bytes={ordinal: GIB})


def test_status_lists_every_binding_of_a_die(make_replica, two_cards):
    """D6, K10: all of them, with replica and bytes."""
    replicas = [make_replica("a"), make_replica("b")]
    for replica in replicas:
        binding_create(replica_id=replica.pk, die_bytes={2: GIB})
    die = dies_overview()[2]
    assert [(b.replica_id, b.served_name, b.bound_bytes) for b in die.bindings] == [
        (replica.pk, replica.served_name, GIB) for replica in replicas
    ]


def test_the_overview_takes_the_same_queries_for_many(
    make_replica, two_cards, django_assert_num_queries
):
    for name in "abc":
        binding_create(replica_id=make_replica(name).pk, die_bytes={0: GIB, 1: GIB})
    with django_assert_num_queries(2):
        dies_overview()


def test_a_die_is_recorded_once(two_cards):
    assert (Card.objects.count(), Die.objects.count()) == (2, 4)
    assert [die.card.ordinal for die in Die.objects.all()] == [0, 0, 1, 1]


def test_impossible_measurements_are_refused(db):
    with pytest.raises(InvalidValue, match="budget_bytes must lie between"):
        die_record(measured(0, total_bytes=1, budget_bytes=2))


def test_a_failed_die_keeps_its_row_and_hides_nobody(two_cards):
    """D8, X4."""
    Die.objects.filter(ordinal=1).update(failure="no context")
    assert [room.failure for room in die_rooms()] == ["", "no context", "", ""]
    assert BindingShare.objects.count() == 0
