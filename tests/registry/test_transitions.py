"""Moving replicas: claims, history, and what follows from a move."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import suppress

import pytest
from django.db import connection, connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.errors import InvalidTransition, InvalidValue, RegistryError, ReplicaNotFound
from registry.models import Binding, Job, Replica
from registry.selectors import replicas_to_load
from registry.services import (
    binding_create,
    replica_cancel_unload,
    replica_progress,
    replica_request,
    replica_request_unload,
    replica_retry,
    replica_transition,
    replicas_reset_at_boot,
    replicas_stopped,
)
from registry.services.transitions import claim_move
from registry.states import HELD, TRANSITIONS, State, Wanted, may_become
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db


@pytest.fixture
def replica(artifact):
    return replica_request(artifact=artifact, served_name="chat", actor=ACTOR)


def move(replica, *states, **fields):
    for state in states:
        replica = replica_transition(replica.pk, state, **fields)
    return replica


def test_a_move_is_written_with_its_reason(replica):
    move(replica, State.PLACED, reason="On the CPU.")
    row = replica.transitions.get()
    assert (row.old, row.new, row.reason) == (State.REQUESTED, State.PLACED, "On the CPU.")


def test_a_move_off_the_table_is_refused_and_leaves_no_trace(replica):
    with pytest.raises(InvalidTransition, match="is requested and cannot become ready"):
        move(replica, State.READY)
    replica.refresh_from_db()
    assert replica.state == State.REQUESTED
    assert not replica.transitions.exists()


def test_of_two_claims_on_one_state_the_second_is_refused(replica):
    seen_by_another = Replica.objects.get(pk=replica.pk)
    claim_move(replica, State.PLACED)
    with pytest.raises(InvalidTransition, match="is placed and cannot become failed"):
        claim_move(seen_by_another, State.FAILED, reason="Too late.")
    assert replica.transitions.count() == 1


def test_unknown_replicas_and_fields_are_refused(replica):
    with pytest.raises(ReplicaNotFound):
        replica_transition("nothing", State.PLACED)
    with pytest.raises(InvalidValue, match="cannot be set by a transition: served_name"):
        replica_transition(replica.pk, State.PLACED, served_name="other")


def test_ready_shows_what_was_loaded(replica):
    move(replica, State.PLACED, State.LOADING)
    replica = replica_transition(
        replica.pk, State.READY, backend="cpu", actual_context_len=2048, num_slots=8
    )
    assert (replica.backend, replica.actual_context_len, replica.num_slots) == ("cpu", 2048, 8)
    assert replica.ready_at is not None
    assert replica.jobs.get().state == Job.State.DONE


def test_a_failure_always_has_a_reason_and_ends_the_job(replica):
    replica = move(replica, State.FAILED)
    assert replica.failure_reason == "No reason was given."
    job = replica.jobs.get()
    assert (job.state, job.finished_at is None) == (Job.State.FAILED, False)


def test_a_reason_cannot_carry_escape_sequences(replica):
    replica = move(replica, State.FAILED, reason="bad\x1b[31m\nname \u202e" + "x" * 5000)
    assert replica.failure_reason.startswith("bad\ufffd[31m name \ufffdxxx")
    assert len(replica.failure_reason) == 2048


def test_progress_shows_while_loading_only(replica):
    replica_progress(replica.pk, "too early", 0.5)
    move(replica, State.PLACED, State.LOADING)
    replica_progress(replica.pk, "compiling kernels", 1.7)
    replica.refresh_from_db()
    assert (replica.phase, replica.progress) == ("compiling kernels", 1.0)
    job = replica.jobs.get()
    assert (job.message, job.progress) == ("compiling kernels", 1.0)
    move(replica, State.READY)
    replica_progress(replica.pk, "too late", 0.1)
    replica.refresh_from_db()
    assert (replica.phase, replica.progress) == ("", 1.0)


@pytest.mark.parametrize("end", [State.UNLOADED, State.FAILED])
def test_memory_is_given_back_at_the_end(replica, end):
    move(replica, State.PLACED)
    binding_create(replica_id=replica.pk, host_bytes=1000)
    move(replica, State.LOADING, end)
    assert not Binding.objects.filter(released_at__isnull=True).exists()


@pytest.mark.parametrize("last", [State.PLACED, State.LOADING, State.READY, State.FAILED])
def test_a_restart_asks_again_for_what_is_wanted(replica, last):
    """A row never says ready unless a model is."""
    path = {
        State.PLACED: [State.PLACED],
        State.LOADING: [State.PLACED, State.LOADING],
        State.READY: [State.PLACED, State.LOADING, State.READY],
        State.FAILED: [State.PLACED, State.FAILED],
    }[last]
    move(replica, *path)
    assert replicas_reset_at_boot() == [replica]
    replica.refresh_from_db()
    assert (replica.state, replica.failure_reason, replica.phase) == (State.REQUESTED, "", "")
    assert replica.jobs.filter(kind=Job.Kind.LOAD, state=Job.State.QUEUED).count() == 1
    assert replicas_reset_at_boot() == []


def test_a_restart_finishes_an_unload(replica):
    move(replica, State.PLACED, State.LOADING, State.READY)
    replica_request_unload(wanted="chat", actor=ACTOR)
    move(replica, State.DRAINING)
    replicas_reset_at_boot()
    replica.refresh_from_db()
    assert replica.state == State.UNLOADED
    assert replica.jobs.get(kind=Job.Kind.UNLOAD).state == Job.State.DONE


@pytest.mark.parametrize("num_moves", [1, 2, 3, 4])
def test_a_stop_leaves_nothing_ready(replica, num_moves):
    """The next start finds what is wanted as requested, and loads it."""
    way = [State.PLACED, State.LOADING, State.READY, State.DRAINING]
    move(replica, *way[:num_moves])
    binding_create(replica_id=replica.pk, host_bytes=5)
    assert replicas_stopped() == [replica]
    replica.refresh_from_db()
    assert (replica.state, replica.wanted, replica.ready_at) == (
        State.REQUESTED,
        Wanted.LOADED,
        None,
    )
    assert replica.transitions.last().reason == "The server was stopped."
    assert replica.jobs.filter(kind=Job.Kind.LOAD, state=Job.State.QUEUED).count() == 1
    assert not replica.bindings.filter(released_at__isnull=True).exists()
    assert replicas_to_load() == [replica]
    assert replicas_stopped() == []


def test_a_stop_finishes_an_unload(replica):
    move(replica, State.PLACED, State.LOADING, State.READY)
    replica_request_unload(wanted="chat", actor=ACTOR)
    replicas_stopped()
    replica.refresh_from_db()
    assert replica.state == State.UNLOADED


def test_a_stop_leaves_failures_with_their_reasons(replica):
    move(replica, State.PLACED)
    move(replica, State.FAILED, reason="No room.")
    assert replicas_stopped() == []
    replica.refresh_from_db()
    assert (replica.state, replica.failure_reason) == (State.FAILED, "No room.")


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), num_steps=st.integers(1, 12))
def test_any_sequence_keeps_row_history_and_jobs_in_step(artifact, data, num_steps):
    """The history is a path of the table, stops and restarts apart, to the row's state; jobs agree."""
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    for _ in range(num_steps):
        replica.refresh_from_db()
        legal = sorted(TRANSITIONS[State(replica.state)])
        wishes = ["unload", "cancel", "retry", "restart", "stop"]
        step = data.draw(st.sampled_from(legal + wishes) | st.sampled_from(State))
        # Refused wishes and moves are part of the sequence: they must leave nothing behind.
        with suppress(RegistryError):
            if step == "unload":
                replica_request_unload(wanted=replica.pk, actor=ACTOR)
            elif step == "cancel":
                replica_cancel_unload(replica_id=replica.pk, actor=ACTOR)
            elif step == "retry":
                replica_retry(replica_id=replica.pk, actor=ACTOR)
            elif step == "restart":
                replicas_reset_at_boot()
            elif step == "stop":
                replicas_stopped()
            else:
                replica_transition(replica.pk, step)
    replica.refresh_from_db()
    at = State.REQUESTED
    for row in replica.transitions.all():
        assert row.old == at
        assert may_become(State(row.old), State(row.new)) or row.reason in (
            "The server was restarted.",
            "The server was stopped.",
        )
        at = State(row.new)
    assert replica.state == at
    open_kinds = set(replica.jobs.filter(state__in=Job.OPEN).values_list("kind", flat=True))
    assert ("load" in open_kinds) == (at in (State.REQUESTED, State.PLACED, State.LOADING))
    assert ("unload" in open_kinds) == (replica.wanted == Wanted.UNLOADED and at in HELD)


@pytest.fixture
def database_file(tmp_path, monkeypatch):
    """Call it to have threads started from then on use a copy of the database in a file.

    Threads cannot share a database in memory as processes and threads share a real one.
    """

    def copy():
        path = tmp_path / "copy.sqlite3"
        target = sqlite3.connect(path)
        target.create_function("regexp", 2, lambda pattern, text: bool(re.search(pattern, text)))
        target.executescript("\n".join(connection.connection.iterdump()))
        target.close()
        settings_of = {**connections.settings["default"], "NAME": str(path)}
        monkeypatch.setitem(connections.settings, "default", settings_of)

    return copy


def test_of_many_threads_one_wins(replica, database_file):
    """Claims are made in the database: of threads that move a replica at once, one does."""
    database_file()
    start, outcomes = threading.Barrier(6), []

    def claim():
        try:
            start.wait(timeout=10)
            moved = replica_transition(replica.pk, State.PLACED)
            outcomes.append((moved.state, moved.transitions.count()))
        except InvalidTransition:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=claim) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(outcomes, key=str) == [("placed", 1), *["refused"] * 5]
