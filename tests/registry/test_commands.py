"""The commands of the control plane."""

from __future__ import annotations

import fcntl
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from registry.models import AuditEvent
from registry.services import (
    api_key_check,
    replica_request,
    replica_request_unload,
    replica_transition,
)
from registry.serving_process import server_is_running
from registry.states import State
from tests.registry.conftest import ACTOR
from tests.registry.test_replica_unload import replica_in

pytestmark = pytest.mark.django_db


def run(*arguments):
    out = StringIO()
    call_command(*arguments, stdout=out, no_color=True)
    return out.getvalue()


def test_a_key_is_made_printed_once_and_works():
    said = run("apikey", "create", "laptop", "--scope", "admin", "--expires-days", "7")
    secret = said.splitlines()[-1]
    info = api_key_check(secret)
    assert info.scopes == {"admin"}
    assert info.expires_at is not None
    listed = run("apikey", "list")
    assert secret not in listed
    assert info.prefix in listed
    assert "usable" in listed
    assert AuditEvent.objects.get().actor.startswith("shell")


def test_a_key_may_infer_by_default():
    secret = run("apikey", "create", "laptop").splitlines()[-1]
    assert api_key_check(secret).scopes == {"inference"}


def test_a_key_is_revoked_by_name():
    run("apikey", "create", "laptop")
    assert "is revoked" in run("apikey", "revoke", "laptop")
    assert "revoked" in run("apikey", "list")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("revoke", "nothing"), "There is no API key 'nothing'"),
        (("create", " "), "name must be 1 to 64 printable characters"),
        (("create", "a", "--expires-days", "0"), "must lie between 1 and 36500"),
        (("create", "a", "--scope", "root"), "invalid choice"),
    ],
)
def test_refusals_are_said_plainly(arguments, said):
    with pytest.raises(CommandError, match=said):
        run("apikey", *arguments)


@pytest.fixture
def data_dir(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    return tmp_path


@pytest.fixture
def running_server(data_dir):
    """What other processes see of a server: its lock."""
    with (data_dir / "engine.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def test_an_empty_list_says_so(db, running_server):
    assert run("replicas") == "No model is loaded.\n"


def test_replicas_are_listed(artifact, running_server):
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    replica_transition(replica.pk, State.FAILED, reason="[bold]No room.")
    said = run("replicas")
    assert replica.pk in said
    assert "chat" in said
    assert "failed" in said
    assert "[bold]No" in said  # nothing in a row is markup
    assert "No server" not in said


@pytest.mark.parametrize("state", [State.REQUESTED, State.LOADING, State.READY])
def test_without_a_server_nothing_is_said_to_be_ready(artifact, data_dir, state):
    """A server that was killed leaves its rows as they were."""
    replica_in(artifact, state)
    said = run("replicas")
    assert said.startswith("No server is running; what is wanted loads at the next start.")
    assert "at next start" in said
    assert state not in said


def test_what_is_to_be_unloaded_does_not_come_back(artifact, data_dir):
    replica = replica_in(artifact, State.READY)
    replica_request_unload(wanted=replica.pk, actor=ACTOR)
    said = run("replicas")
    assert "ready" not in said
    assert "at next start" not in said


def test_a_server_that_ended_is_not_running(data_dir):
    assert not server_is_running()
    with (data_dir / "engine.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        assert server_is_running()
    assert not server_is_running()


def test_unloaded_ones_are_listed_on_demand(artifact, running_server):
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    replica_transition(replica.pk, State.UNLOADED)
    assert replica.pk not in run("replicas")
    assert replica.pk in run("replicas", "--all")
