"""Pages that follow replicas: they ask again while something moves, and load anew when it has."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.urls import reverse

from registry.services import replica_progress, replica_request_unload, replica_transition
from registry.states import State
from tests.registry.conftest import ACTOR
from tests.registry.test_replica_unload import replica_in

pytestmark = pytest.mark.django_db


def page_of(replica):
    return reverse("admin:registry_replica_change", args=[replica.pk])


def list_of(_replica):
    return reverse("admin:registry_replica_changelist")


def poll_of(text):
    """What the page will send when it asks again: its headers, or None where it never does."""
    found = re.search(r"hx-headers='([^']*)'", text)
    return json.loads(html.unescape(found[1])) if found else None


def get(client, url, headers=None):
    return client.get(url, headers=headers or {})


BOTH = pytest.mark.parametrize("url_of", [page_of, list_of])


@BOTH
@pytest.mark.parametrize("state", [State.REQUESTED, State.PLACED, State.LOADING, State.DRAINING])
def test_a_page_asks_again_while_something_moves(operator, artifact, url_of, state):
    replica = replica_in(artifact, state)
    if state is State.DRAINING:
        replica_request_unload(wanted=replica.pk, actor=ACTOR)
    text = operator.get(url_of(replica)).content.decode()
    assert poll_of(text) is not None
    assert "every 2s" in text


@BOTH
def test_a_settled_page_is_quiet(operator, artifact, url_of):
    replica = replica_in(artifact, State.READY)
    assert poll_of(operator.get(url_of(replica)).content.decode()) is None


@BOTH
def test_a_poll_shows_progress_in_place(operator, artifact, url_of):
    replica = replica_in(artifact, State.LOADING)
    seen = poll_of(operator.get(url_of(replica)).content.decode())
    replica_progress(replica.pk, "packing weights", 0.42)
    answer = get(operator, url_of(replica), seen)
    assert "HX-Refresh" not in answer.headers
    assert "packing weights" in answer.content.decode()
    assert "42%" in answer.content.decode()


@BOTH
@pytest.mark.parametrize("end", [State.READY, State.FAILED])
def test_a_poll_after_a_move_loads_the_page_anew(operator, artifact, url_of, end):
    """The title, the state and the buttons never disagree."""
    replica = replica_in(artifact, State.LOADING)
    seen = poll_of(operator.get(url_of(replica)).content.decode())
    replica_transition(replica.pk, end, reason="So it is.")
    answer = get(operator, url_of(replica), seen)
    assert answer.headers["HX-Refresh"] == "true"
    assert answer.content == b""


@BOTH
def test_a_wish_alone_loads_the_page_anew(operator, artifact, url_of):
    """A load that is to be given up has other buttons."""
    replica = replica_in(artifact, State.LOADING)
    seen = poll_of(operator.get(url_of(replica)).content.decode())
    replica_request_unload(wanted=replica.pk, actor=ACTOR)
    assert get(operator, url_of(replica), seen).headers["HX-Refresh"] == "true"


def test_progress_is_put_into_the_rows_that_move(operator, artifact):
    moving, settled = replica_in(artifact, State.LOADING), replica_in(artifact, State.READY)
    text = operator.get(list_of(moving)).content.decode()
    assert f'hx-select-oob="#progress-{moving.pk}"' in text
    assert f'id="progress-{moving.pk}"' in text
    assert f"#progress-{settled.pk}" not in text


@BOTH
def test_a_poll_without_the_permission_is_refused(as_group, artifact, url_of):
    """Not even that something moved is told."""
    replica = replica_in(artifact, State.LOADING)
    answer = get(as_group(), url_of(replica), {"X-Seen": "something older"})
    assert answer.status_code == 403


@BOTH
def test_an_anonymous_poll_is_sent_to_the_login(client, artifact, url_of):
    answer = get(client, url_of(replica_in(artifact, State.LOADING)), {"X-Seen": "older"})
    assert answer.status_code == 302
