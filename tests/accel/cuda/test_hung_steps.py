"""Steps over two dies, one of which hangs: whatever it does then, it is named, and closing returns."""

from __future__ import annotations

import time

import pytest

from accel.backend import run_step
from accel.cuda import hung
from accel.errors import DieHung
from tests.accel.cuda.models import compile_program
from tests.accel.cuda.test_in_flight import LIMITS, PROGRAM, batches
from tests.emulator.emulated_driver import LAUNCH


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch) -> None:
    monkeypatch.setattr(hung, "PATIENCE_S", 0.02)
    monkeypatch.setattr(hung, "REST_S", 0.01)
    monkeypatch.setattr(hung, "PATIENCE_S_PER_ROW", 0)


def two_in_flight(executor) -> None:
    """A wide step, in parts, and the next one before it is done."""
    first, second = batches()[:2]
    executor.start(first)
    executor.start(second)
    executor.finish()
    executor.finish()


def launches_of_two(emulated) -> int:
    executor = compile_program(PROGRAM, LIMITS, 2)
    before = emulated.count(LAUNCH)
    two_in_flight(executor)
    executor.close()
    return emulated.count(LAUNCH) - before


@pytest.mark.parametrize("peers", [True, False], ids=["direct", "through the host"])
def test_the_die_that_hangs_is_named(emulated, peers) -> None:
    """The host waits for the last die alone, and each die for the other: most of them only wait."""
    emulated.reset(num_dies=2, peers=peers)
    total = launches_of_two(emulated)
    assert total > 100
    named = []
    for nth in range(1, total + 1, 11):
        emulated.reset(num_dies=2, peers=peers)
        hung._hung.clear()
        executor = compile_program(PROGRAM, LIMITS, 2)
        emulated.hang_at_launch(nth)
        with pytest.raises(DieHung) as told:
            two_in_flight(executor)
        assert emulated.is_hung(told.value.ordinal), nth
        named.append(told.value.ordinal)
        executor.close()
        assert emulated.num_contexts() == 0
        assert not emulated.num_stuck_calls(), nth
    assert set(named) == {0, 1}


@pytest.mark.parametrize("nth", [1, 100])
def test_closing_does_not_wait_another_time(emulated, monkeypatch, nth) -> None:
    """Neither for the one nor for the other, which had as long as it to do what it could."""
    executor = compile_program(PROGRAM, LIMITS, 2)
    monkeypatch.setattr(hung, "PATIENCE_S", 1.0)
    emulated.hang_at_launch(nth)
    with pytest.raises(DieHung):
        two_in_flight(executor)
    started_s = time.monotonic()
    executor.close()
    assert time.monotonic() - started_s < 0.9


@pytest.mark.parametrize("hangs", [0, 1])
def test_one_that_hangs_while_graphs_are_forgotten_is_named(emulated, monkeypatch, hangs) -> None:
    from accel.cuda import stage

    monkeypatch.setattr(stage, "_MOST_PREPARED", 0)
    executor = compile_program(PROGRAM, LIMITS, 2)
    emulated.hang_die(hangs)
    with pytest.raises(DieHung) as told:
        two_in_flight(executor)
    assert told.value.ordinal == hangs
    executor.close()


def test_a_replayed_step_may_hang_as_well(emulated) -> None:
    executor = compile_program(PROGRAM, LIMITS, 1)
    step = batches()[2]
    for _ in range(4):
        run_step(executor, step)
    emulated.hang_at_launch(3)
    with pytest.raises(DieHung):
        run_step(executor, step)
    executor.close()
