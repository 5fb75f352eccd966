"""Finding and measuring dies: who they are, which card they are on, and failures that hide nobody (D8)."""

from __future__ import annotations

import pytest

from accel.cuda.die import Die
from accel.cuda.inventory import Inventory
from tests.emulator.emulated_driver import K80_DIE_BYTES


@pytest.fixture
def take_stock():
    """Inventories that are closed at the end."""
    opened: list[Inventory] = []

    def take() -> Inventory:
        opened.append(Inventory())
        return opened[-1]

    yield take
    for inventory in opened:
        inventory.close()


def test_every_die_is_described(emulated, take_stock) -> None:
    emulated.reset(num_dies=4)
    readings = take_stock().measure()
    assert [r.ordinal for r in readings] == [0, 1, 2, 3]
    assert [r.card for r in readings] == [0, 0, 1, 1]
    assert [r.pci_address for r in readings] == [
        "0000:05:00.0",
        "0000:06:00.0",
        "0000:09:00.0",
        "0000:0a:00.0",
    ]
    assert {(r.name, r.arch, r.emulated, r.total_bytes) for r in readings} == {
        ("Tesla K80", "sm_37", True, K80_DIE_BYTES)
    }
    assert len({r.uuid for r in readings}) == 4
    assert all(r.uuid.startswith("GPU-") and len(r.uuid) == 40 for r in readings)


def test_the_cards_are_the_boards_whatever_the_order(emulated, take_stock) -> None:
    emulated.reset(num_dies=4, cards=(0, 1, 0, 1))
    assert [r.card for r in take_stock().measure()] == [0, 1, 0, 1]


def test_what_others_take_shows_at_the_next_look(emulated, take_stock) -> None:
    """X5."""
    inventory = take_stock()
    free = [r.free_bytes for r in inventory.measure()]
    emulated.set_external_bytes(1, 3 << 30)
    assert [r.free_bytes for r in inventory.measure()] == [free[0], free[1] - (3 << 30)]


def test_own_use_is_told_apart(emulated, take_stock) -> None:
    inventory = take_stock()
    die = Die(1)
    with die.current():
        die.allocate(5 << 20, "a test")
    readings = inventory.measure()
    die.close()
    assert [r.own_bytes for r in readings] == [0, 5 << 20]
    assert [r.own_bytes for r in inventory.measure()] == [0, 0]


def test_a_die_that_makes_no_context_is_listed_with_the_reason(emulated, take_stock) -> None:
    """D8, X4: and the dies after it are found."""
    emulated.reset(num_dies=3)
    emulated.break_die(1)
    readings = take_stock().measure()
    assert [bool(r.failure) for r in readings] == [False, True, False]
    assert "cuCtxCreate" in readings[1].failure
    assert readings[1].card == readings[0].card


def test_a_die_that_goes_bad_is_failed_from_then_on(emulated, take_stock) -> None:
    inventory = take_stock()
    inventory.measure()
    emulated.break_die(0)
    inventory.try_out([0, 1])
    assert [bool(r.failure) for r in inventory.measure()] == [True, False]
    assert emulated.num_contexts() == 1


def test_a_sound_die_passes_the_trial(emulated, take_stock) -> None:
    inventory = take_stock()
    used = emulated.used_bytes(0)
    inventory.try_out([0, 1, 7])
    assert not any(r.failure for r in inventory.measure())
    assert emulated.used_bytes(0) == used


def test_a_full_die_is_not_broken(emulated, take_stock) -> None:
    emulated.reset(num_dies=1, memory_bytes=100 << 20, context_bytes=1 << 20)
    emulated.set_external_bytes(0, 100 << 20)
    inventory = take_stock()
    inventory.try_out([0])
    (reading,) = inventory.measure()
    assert (reading.free_bytes, reading.failure) == (0, "")
    emulated.set_external_bytes(0, 0)
    assert inventory.measure()[0].free_bytes == 99 << 20


def test_closing_gives_the_contexts_back(emulated, take_stock) -> None:
    inventory = take_stock()
    inventory.measure()
    assert emulated.num_contexts() == 2
    inventory.close()
    inventory.close()
    assert emulated.num_contexts() == 0
