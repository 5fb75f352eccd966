"""The rows of dies: found, measured, failed, gone (D8)."""

from __future__ import annotations

import logging

import pytest

from registry.errors import PlacementRefused
from registry.models import Die
from registry.selectors import die_rooms, dies_overview
from registry.services import binding_create, dies_measured, dies_record, replica_request
from tests.registry.conftest import ACTOR, GIB, measured

pytestmark = pytest.mark.django_db


def test_what_was_found_is_shown():
    dies_record([measured(0, uuid="GPU-a", pci_address="0000:05:00.0", emulated=True)])
    die = dies_overview()[0]
    assert (die.name, die.uuid, die.pci_address, die.emulated) == (
        "Tesla K80",
        "GPU-a",
        "0000:05:00.0",
        True,
    )
    assert str(Die.objects.get()) == "die 0 (emulated)"


def test_a_die_that_is_gone_is_shown_no_more_and_keeps_its_history(artifact, two_cards):
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    binding_create(replica_id=replica.pk, die_bytes={3: GIB})
    dies_record([measured(0), measured(1)])
    assert [die.ordinal for die in dies_overview()] == [0, 1]
    assert replica.bindings.get().shares.get().die.ordinal == 3


def test_a_die_that_is_gone_cannot_be_named(artifact, two_cards):
    dies_record([measured(0)])
    with pytest.raises(PlacementRefused, match=r"There is no die 3 on this host\. Dies: 0\."):
        replica_request(artifact=artifact, served_name="chat", dies=[3], actor=ACTOR)
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    with pytest.raises(PlacementRefused, match="Die 3 does not exist"):
        binding_create(replica_id=replica.pk, die_bytes={3: GIB})


def test_a_host_without_dies_lists_none(two_cards):
    """Such as one whose emulated dies were switched off again: models go to the CPU."""
    dies_record([])
    assert die_rooms() == []


def test_a_die_that_comes_back_is_shown_again(two_cards):
    dies_record([])
    dies_record([measured(2)])
    assert [die.ordinal for die in dies_overview()] == [2]


def test_a_measurement_changes_use_and_failures(two_cards):
    """D8: external use is re-measured; a failed die hides nobody."""
    dies_measured([measured(0, external_bytes=GIB), measured(1, failure="fell off the bus")])
    assert [die.external_bytes for die in dies_overview()] == [GIB, 0, 0, 0]
    assert [die.failure for die in dies_overview()] == ["", "fell off the bus", "", ""]


def test_a_measurement_moves_the_time_of_all_dies(two_cards):
    before = list(Die.objects.values_list("measured_at", flat=True))
    dies_measured([measured(ordinal) for ordinal in range(4)])
    after = list(Die.objects.values_list("measured_at", flat=True))
    assert all(old < new for old, new in zip(before, after, strict=True))


def test_a_measurement_without_news_takes_few_queries(two_cards, django_assert_max_num_queries):
    with django_assert_max_num_queries(4):
        dies_measured([measured(ordinal) for ordinal in range(4)])


def test_another_die_at_an_old_place_is_noticed(two_cards, caplog):
    dies_record([measured(0, uuid="GPU-a")])
    with caplog.at_level(logging.WARNING):
        dies_record([measured(0, uuid="GPU-b")])
    assert "die 0 is GPU-b now; it was GPU-a" in caplog.text


def test_rooms_tell_where_a_name_is_served_already(artifact, two_cards):
    """D7."""
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    binding_create(replica_id=replica.pk, die_bytes={2: GIB})
    assert [room.serves_it for room in die_rooms("chat")] == [False, False, True, False]
    assert not any(room.serves_it for room in [*die_rooms(), *die_rooms("other")])
