"""The table of states."""

from __future__ import annotations

import pytest

from registry.states import HELD, TRANSITIONS, State, Wanted, after_restart, may_become


def test_every_state_has_a_row():
    assert set(TRANSITIONS) == set(State)


def test_every_state_can_be_reached_from_requested():
    reached, frontier = {State.REQUESTED}, [State.REQUESTED]
    while frontier:
        for new in TRANSITIONS[frontier.pop()] - reached:
            reached.add(new)
            frontier.append(new)
    assert reached == set(State)


def test_every_state_can_end_unloaded():
    """No state is a trap: from each, some way leads to unloaded."""
    ending = {State.UNLOADED}
    while True:
        more = {s for s in State if TRANSITIONS[s] & ending} - ending
        if not more:
            break
        ending |= more
    assert ending == set(State)


@pytest.mark.parametrize("state", sorted(set(State) - {State.LOADING, State.DRAINING}))
def test_only_loading_and_draining_become_ready(state):
    assert not may_become(state, State.READY)


def test_ready_never_skips_draining():
    assert not may_become(State.READY, State.UNLOADED)


def test_unloaded_is_final():
    assert TRANSITIONS[State.UNLOADED] == frozenset()


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("wanted", Wanted)
def test_nothing_is_held_after_a_restart(state, wanted):
    assert after_restart(state, wanted) not in HELD


def test_a_restart_brings_back_what_is_wanted_only():
    assert after_restart(State.READY, Wanted.LOADED) is State.REQUESTED
    assert after_restart(State.FAILED, Wanted.LOADED) is State.REQUESTED
    assert after_restart(State.DRAINING, Wanted.UNLOADED) is State.UNLOADED
    assert after_restart(State.UNLOADED, Wanted.LOADED) is State.UNLOADED
