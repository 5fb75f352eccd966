"""The life of a replica, as data: which state may follow which, and what a restart makes of each.

Knows nothing about the database or about who moves a replica.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import models


class Wanted(models.TextChoices):
    """What the operator asked for."""

    LOADED = "loaded", "Loaded"
    UNLOADED = "unloaded", "Unloaded"


class State(models.TextChoices):
    """What the replica is."""

    REQUESTED = "requested", "Requested"
    PLACED = "placed", "Placed"
    LOADING = "loading", "Loading"
    READY = "ready", "Ready"
    DRAINING = "draining", "Draining"
    UNLOADED = "unloaded", "Unloaded"
    FAILED = "failed", "Failed"


class UnloadMode(models.TextChoices):
    DRAIN = "drain", "Drain: let running requests finish"
    FORCE = "force", "Force: end running requests now"


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.REQUESTED: frozenset({State.PLACED, State.FAILED, State.UNLOADED}),
    State.PLACED: frozenset({State.LOADING, State.FAILED, State.UNLOADED}),
    State.LOADING: frozenset({State.READY, State.FAILED, State.UNLOADED}),
    State.READY: frozenset({State.DRAINING, State.FAILED}),
    # Back to ready: the unload was cancelled while requests were still finishing.
    State.DRAINING: frozenset({State.UNLOADED, State.READY, State.FAILED}),
    # To requested: another try.
    State.FAILED: frozenset({State.REQUESTED, State.UNLOADED}),
    # A model that is wanted again gets a new row; the history of the old one stays whole.
    State.UNLOADED: frozenset(),
}

# The states in which a process holds memory for the replica.
HELD = frozenset({State.PLACED, State.LOADING, State.READY, State.DRAINING})
LIVE = frozenset(State) - {State.UNLOADED}


def may_become(old: State, new: State) -> bool:
    return new in TRANSITIONS[old]


def after_restart(state: State, wanted: Wanted) -> State:
    """What a row of a process that ended is, now that nothing is loaded.

    These steps are not in TRANSITIONS: only a stop or a restart may take them.
    """
    if state is State.UNLOADED:
        return state
    return State.REQUESTED if wanted is Wanted.LOADED else State.UNLOADED
