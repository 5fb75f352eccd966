"""The dies of a host while a server lives: found, looked at again, failed, gone."""

from __future__ import annotations

import logging
import time

import pytest

from accel.cuda.die import Die
from accel.errors import NoDriver
from inference import dies as dies_module
from inference.dies import DieSettings, DieWatch, die_settings, find_dies
from pantheon_site import env
from registry.models import Die as DieRow
from registry.selectors import die_rooms, dies_overview
from registry.services import MeasuredDie, dies_record
from tests.emulator.emulated_driver import K80_DIE_BYTES

pytestmark = pytest.mark.django_db(transaction=True)
GIB = 1 << 30
SETTINGS = DieSettings(wanted=True, reserve_bytes=GIB)


@pytest.fixture
def watch():
    made = DieWatch(SETTINGS)
    yield made
    made.stop()


def test_dies_are_recorded_with_their_budget(emulated, watch) -> None:
    """S54: total less the reserve."""
    emulated.reset(num_dies=4)
    watch.find()
    found = dies_overview()
    assert [(die.ordinal, die.card) for die in found] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert {die.budget_bytes for die in found} == {K80_DIE_BYTES - GIB}
    assert {die.external_bytes for die in found} == {0}


def test_emulated_dies_are_called_so(emulated, watch) -> None:
    watch.find()
    assert {(die.name, die.emulated) for die in dies_overview()} == {("Tesla K80 (emulated)", True)}


def test_external_use_is_measured_again(emulated, watch) -> None:
    """S55, X5: beyond the reserve, and only what others hold."""
    watch.find()
    emulated.set_external_bytes(1, 3 * GIB)
    own = Die(0)
    with own.current():
        own.allocate(2 * GIB, "a model")
    watch.look()
    assert [room.used_bytes for room in die_rooms()] == [0, 2 * GIB]
    own.close()


def test_it_looks_by_itself(emulated, watch, monkeypatch) -> None:
    monkeypatch.setattr(dies_module, "LOOK_S", 0.02)
    watch.find()
    watch.start()
    emulated.set_external_bytes(0, 5 * GIB)
    deadline = time.monotonic() + 10
    while not die_rooms()[0].used_bytes and time.monotonic() < deadline:
        time.sleep(0.02)
    assert die_rooms()[0].used_bytes == 4 * GIB


def test_a_die_that_failed_takes_no_models_and_hides_nobody(emulated, watch) -> None:
    watch.find()
    emulated.break_die(0)
    watch.try_out([0, 1])
    assert [bool(room.failure) for room in die_rooms()] == [True, False]
    watch.look()
    assert [bool(room.failure) for room in die_rooms()] == [True, False]


def test_without_a_driver_there_are_no_dies(monkeypatch, two_rows) -> None:
    """Whatever was recorded on an earlier day."""

    def refuse() -> None:
        raise NoDriver("pycuda is not installed")

    monkeypatch.setattr(dies_module, "Inventory", refuse)
    find_dies(SETTINGS)
    assert dies_overview() == []
    assert DieRow.objects.count() == 2


def test_a_host_that_is_to_use_its_cpu_is_not_asked_for_dies(monkeypatch, two_rows) -> None:
    monkeypatch.setattr(dies_module, "Inventory", lambda: pytest.fail("the driver was asked"))
    find_dies(DieSettings(wanted=False, reserve_bytes=GIB))
    assert dies_overview() == []


def test_a_driver_that_cannot_be_used_is_worth_a_word(monkeypatch, tmp_path, caplog, db) -> None:
    """With NVIDIA's kernel module loaded the operator expects dies; elsewhere nobody does."""

    def refuse() -> None:
        raise NoDriver("pycuda is not installed")

    monkeypatch.setattr(dies_module, "Inventory", refuse)
    for folder, level in ((tmp_path, logging.WARNING), (tmp_path / "absent", logging.DEBUG)):
        monkeypatch.setattr(dies_module, "DRIVER_FOLDER", folder)
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "inference.dies"):
            find_dies(SETTINGS)
        assert [record.levelno for record in caplog.records] == [level]
        assert "pycuda is not installed" in caplog.text


def test_stopping_gives_the_contexts_back(emulated, watch) -> None:
    watch.find()
    watch.start()
    assert emulated.num_contexts() == 2
    watch.stop()
    watch.stop()
    assert emulated.num_contexts() == 0
    watch.look()
    watch.try_out([0])


def test_the_environment_says_which_dies() -> None:
    settings = die_settings(env.read({}))
    assert (settings.wanted, settings.num_emulated) == (True, 0)
    assert settings.reserve_bytes == GIB
    assert die_settings(env.read({"PN_DIE_RESERVE_BYTES": "5"})).reserve_bytes == 5
    assert die_settings(env.read({"PANTHEON_EMULATED_DIES": "8"})).num_emulated == 8
    assert not die_settings(env.read({"PANTHEON_BACKEND": "cpu"})).wanted


@pytest.fixture
def two_rows(db):
    dies_record([MeasuredDie(o, 0, "Tesla K80", 12 * GIB, 11 * GIB, 0) for o in range(2)])
