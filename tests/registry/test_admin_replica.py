"""Replicas in the admin site: looking, unloading, keeping, retrying."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from registry.models import Replica
from registry.services import replica_request_unload, replica_transition
from registry.states import State, Wanted
from tests.registry.conftest import ACTOR
from tests.registry.test_replica_unload import replica_in

pytestmark = pytest.mark.django_db


def url_of(replica, page):
    return reverse(f"admin:registry_replica_{page}", args=[replica.pk])


def test_the_page_shows_state_and_history(operator, artifact):
    replica = replica_in(artifact, State.LOADING)
    replica_transition(replica.pk, State.FAILED, reason="It needs 9.0 GiB, 8.0 GiB are free.")
    text = operator.get(url_of(replica, "change")).content.decode()
    for said in ("It needs 9.0 GiB", "Requested", "Placed", "Loading", "Failed"):
        assert said in text


def test_the_history_is_to_the_second(operator, artifact):
    """Loads and drains are over in seconds."""
    step = replica_in(artifact, State.LOADING).transitions.last()
    text = operator.get(url_of(step.replica, "change")).content.decode()
    assert f"{step.at:%Y-%m-%d %H:%M:%S}" in text


@pytest.mark.parametrize("words", ["Quantize", "Running", "Why it failed", "dies"])
def test_what_means_nothing_yet_is_not_shown(operator, artifact, words):
    replica = replica_in(artifact, State.LOADING)
    assert words not in operator.get(url_of(replica, "change")).content.decode()


def test_what_runs_is_shown_once_it_does(operator, artifact):
    replica = replica_in(artifact, State.LOADING)
    replica_transition(replica.pk, State.READY, backend="cpu", actual_context_len=512, num_slots=8)
    text = operator.get(url_of(replica, "change")).content.decode()
    assert "Running" in text
    assert "512" in text


def test_nothing_can_be_edited(admin_client, artifact):
    """Runtime state is the services' alone, even for superusers."""
    replica = replica_in(artifact, State.READY)
    answer = admin_client.post(url_of(replica, "change"), {"state": "failed", "served_name": "x"})
    assert answer.status_code == 403
    assert admin_client.post(url_of(replica, "delete"), {"post": "yes"}).status_code == 403
    assert admin_client.get(reverse("admin:registry_replica_add")).status_code == 403
    replica.refresh_from_db()
    assert (replica.state, replica.served_name) == (State.READY, "chat")


def test_unload_names_the_state_and_waits_for_the_post(operator, artifact):
    replica = replica_in(artifact, State.READY)
    text = operator.get(url_of(replica, "unload")).content.decode()
    assert "Requests that are running will finish within the time limit" in text
    replica.refresh_from_db()
    assert replica.wanted == Wanted.LOADED


def test_unload_works(operator, artifact):
    replica = replica_in(artifact, State.READY)
    sent = {"mode": "force", "timeout_s": "2.5"}
    for _double_click in range(2):
        assert operator.post(url_of(replica, "unload"), sent).status_code == 302
    replica.refresh_from_db()
    assert (replica.wanted, replica.unload_mode, replica.unload_timeout_s) == (
        Wanted.UNLOADED,
        "force",
        2.5,
    )
    assert replica.jobs.filter(kind="unload").count() == 1


def test_unload_ends_one_replica_of_a_name_only(operator, artifact):
    first, second = replica_in(artifact, State.READY), replica_in(artifact, State.READY)
    operator.post(url_of(second, "unload"), {"mode": "drain"})
    assert list(Replica.objects.filter(wanted=Wanted.LOADED)) == [first]


def test_an_unloaded_replica_cannot_be_unloaded(operator, artifact):
    replica = replica_in(artifact, State.REQUESTED)
    replica_request_unload(wanted=replica.pk, actor=ACTOR)
    answer = operator.post(url_of(replica, "unload"), {"mode": "drain"}, follow=True)
    assert "is unloaded already" in answer.content.decode()


def test_an_unload_can_be_cancelled(operator, artifact):
    replica = replica_in(artifact, State.READY)
    replica_request_unload(wanted=replica.pk, actor=ACTOR)
    replica_transition(replica.pk, State.DRAINING)
    operator.get(url_of(replica, "cancel_unload"))
    replica.refresh_from_db()
    assert replica.state == State.DRAINING
    operator.post(url_of(replica, "cancel_unload"))
    replica.refresh_from_db()
    assert (replica.state, replica.wanted) == (State.READY, Wanted.LOADED)


def test_a_failed_one_is_tried_again(operator, artifact):
    replica = replica_in(artifact, State.LOADING)
    replica_transition(replica.pk, State.FAILED, reason="No room.")
    assert operator.post(url_of(replica, "retry")).status_code == 302
    replica.refresh_from_db()
    assert replica.state == State.REQUESTED


def test_a_ready_one_has_nothing_to_cancel(operator, artifact):
    replica = replica_in(artifact, State.READY)
    replica_request_unload(wanted=replica.pk, actor=ACTOR)
    replica_transition(replica.pk, State.DRAINING)
    replica_transition(replica.pk, State.UNLOADED)
    text = operator.post(url_of(replica, "cancel_unload")).content.decode()
    assert "there is no unload left to cancel" in text


@pytest.mark.parametrize(
    ("state", "shown", "hidden"),
    [
        (State.READY, {"unload"}, {"cancel_unload", "retry"}),
        (State.FAILED, {"unload", "retry"}, {"cancel_unload"}),
        (State.DRAINING, {"unload", "cancel_unload"}, {"retry"}),
        (State.UNLOADED, set(), {"unload", "cancel_unload", "retry"}),
    ],
)
def test_only_fitting_buttons_are_shown(operator, artifact, state, shown, hidden):
    replica = replica_in(artifact, State.LOADING if state is State.FAILED else State.READY)
    if state is State.FAILED:
        replica_transition(replica.pk, State.FAILED, reason="No room.")
    if state in (State.DRAINING, State.UNLOADED):
        replica_request_unload(wanted=replica.pk, actor=ACTOR)
        replica_transition(replica.pk, State.DRAINING)
    if state is State.UNLOADED:
        replica_transition(replica.pk, State.UNLOADED)
    text = operator.get(url_of(replica, "change")).content.decode()
    assert all(url_of(replica, page) in text for page in shown)
    assert not any(f'"{url_of(replica, page)}"' in text for page in hidden)


@pytest.mark.parametrize("page", ["unload", "cancel_unload", "retry"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_without_the_permission_it_is_refused(as_group, artifact, page, method):
    replica = replica_in(artifact, State.READY)
    client = as_group("viewer")
    assert getattr(client, method)(url_of(replica, page), {"mode": "drain"}).status_code == 403
    replica.refresh_from_db()
    assert replica.wanted == Wanted.LOADED
    text = client.get(url_of(replica, "change")).content.decode()
    assert url_of(replica, page) not in text


def test_the_list_has_a_button_where_there_is_something_to_unload(as_group, operator, artifact):
    replica = replica_in(artifact, State.READY)
    assert f'href="{url_of(replica, "unload")}"' in operator.get(LIST).content.decode()
    assert url_of(replica, "unload") not in as_group("viewer").get(LIST).content.decode()
    replica_request_unload(wanted=replica.pk, actor=ACTOR)
    replica_transition(replica.pk, State.DRAINING)
    replica_transition(replica.pk, State.UNLOADED)
    assert url_of(replica, "unload") not in operator.get(LIST).content.decode()


def test_an_unknown_replica_is_not_found(operator, db):
    assert operator.get("/admin/registry/replica/nothing/unload/").status_code == 404


LIST = "/admin/registry/replica/"


def test_selected_replicas_are_unloaded_after_a_confirmation(operator, artifact):
    """The first POST of a bulk action only asks."""
    chosen = [replica_in(artifact, State.READY), replica_in(artifact, State.LOADING)]
    other = replica_in(artifact, State.READY)
    sent = {"action": "unload_selected", "_selected_action": [r.pk for r in chosen]}
    page = operator.post(LIST, sent)
    assert "Unload 2 replicas" in page.content.decode()
    assert not Replica.objects.filter(wanted=Wanted.UNLOADED).exists()
    answer = operator.post(LIST, {**sent, "confirmed": "yes", "mode": "drain"}, follow=True)
    assert "2 replicas are being unloaded" in answer.content.decode()
    assert list(Replica.objects.filter(wanted=Wanted.LOADED)) == [other]


def test_one_selected_replica_is_one(operator, artifact):
    sent = {"action": "unload_selected", "_selected_action": [replica_in(artifact, State.READY).pk]}
    assert "Unload 1 replica<" in re.sub(r"\s+<", "<", operator.post(LIST, sent).content.decode())
    answer = operator.post(LIST, {**sent, "confirmed": "yes", "mode": "drain"}, follow=True)
    assert "1 replica is being unloaded." in answer.content.decode()


def test_selected_replicas_stay_without_the_permission(as_group, artifact):
    replica = replica_in(artifact, State.READY)
    sent = {"action": "unload_selected", "_selected_action": [replica.pk], "confirmed": "yes"}
    as_group("viewer").post(LIST, {**sent, "mode": "force"})
    replica.refresh_from_db()
    assert replica.wanted == Wanted.LOADED
