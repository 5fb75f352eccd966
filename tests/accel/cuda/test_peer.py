"""Copies from die to die: direct within a card, through the host otherwise, always in order."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cuda.die import Die
from accel.cuda.peer import Crossing

NUM_FLOATS = 1024
NUM_BYTES = 4 * NUM_FLOATS


@pytest.fixture
def pair():
    """Opens two dies; both are closed at the end."""
    opened: list[Die] = []

    def open_pair(source: int = 0, target: int = 1) -> tuple[Die, Die]:
        opened.extend((Die(source), Die(target)))
        return opened[-2], opened[-1]

    yield open_pair
    for die in opened:
        die.close()


def crossed(source: Die, target: Die, crossing: Crossing, num_rounds: int = 3) -> np.ndarray:
    """Values sent round after round through the same two buffers, as they arrived."""
    received = np.zeros((num_rounds, NUM_FLOATS), np.float32)
    sent = [np.arange(NUM_FLOATS, dtype=np.float32) + 1000 * i for i in range(num_rounds)]
    with source.current():
        out = source.allocate(NUM_BYTES, "a test")
    with target.current():
        into = target.allocate(NUM_BYTES, "a test")
    for values, arrived in zip(sent, received, strict=True):
        with source.current():
            source.copy_in(out.address, values)
        crossing.copy(into.address, out.address, NUM_BYTES)
        with target.current():
            target.copy_out(arrived, into.address)
    for die in (target, source):  # the target first: it has to wait for the source by itself
        with die.current():
            die.synchronize()
    assert np.array_equal(received, sent)
    return received


def test_the_dies_of_a_card_copy_directly(dies, pair) -> None:
    dies(2)
    source, target = pair()
    crossing = Crossing(source, target, NUM_BYTES)
    assert crossing.is_direct
    assert source.account.pinned_bytes == 0
    crossed(source, target, crossing)


def test_dies_that_cannot_reach_each_other_go_through_the_host(dies, pair) -> None:
    dies(2, peers=False)
    source, target = pair()
    crossing = Crossing(source, target, NUM_BYTES)
    assert not crossing.is_direct
    assert source.account.pinned_bytes == NUM_BYTES
    crossed(source, target, crossing)


def test_cards_are_crossed_through_the_host(emulated, pair) -> None:
    emulated.reset(num_dies=4)
    source, target = pair(1, 2)
    crossing = Crossing(source, target, NUM_BYTES)
    assert not crossing.is_direct
    crossed(source, target, crossing)


def test_a_way_that_loses_data_is_not_trusted(emulated, pair, monkeypatch) -> None:
    """Some hosts claim direct copies and deliver nothing."""
    from accel.cuda import driver

    monkeypatch.setattr(driver.load(), "memcpy_peer_async", lambda *args, **kwargs: None)
    source, target = pair()
    crossing = Crossing(source, target, NUM_BYTES)
    assert not crossing.is_direct
    crossed(source, target, crossing)


def test_both_ways_work_at_once(emulated, pair) -> None:
    """S69: access that is enabled already is no error."""
    source, target = pair()
    there, back = Crossing(source, target, NUM_BYTES), Crossing(target, source, NUM_BYTES)
    assert there.is_direct
    assert back.is_direct
    crossed(source, target, there)
    crossed(target, source, back)


def test_a_trial_leaves_nothing_behind(emulated, pair) -> None:
    source, target = pair()
    Crossing(source, target, NUM_BYTES)
    assert (source.account.allocated_bytes, target.account.allocated_bytes) == (0, 0)
