"""Every list and page of the admin site: who may see it, what it costs, and that names stay text."""

from __future__ import annotations

import csv
import re

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from registry.models import Artifact, AuditEvent, Job, Replica
from registry.services import (
    api_key_create,
    audit_record,
    binding_create,
    dies_record,
    job_open,
    replica_request,
    replica_transition,
)
from registry.states import State
from tests.registry.conftest import ACTOR, GIB, measured

pytestmark = pytest.mark.django_db

MODELS = ("artifact", "replica", "job", "auditevent", "apikey", "die")
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
MAX_QUERIES = 12


@pytest.fixture
def rows(make_artifact, two_cards):
    """Several of everything, under hostile names where a name is not ours to choose."""
    for number in range(6):
        artifact = make_artifact(f"{HOSTILE}{number}")
        replica = replica_request(artifact=artifact, served_name=f"chat-{number}", actor=HOSTILE)
        replica_transition(replica.pk, State.PLACED, reason=HOSTILE)
        binding_create(replica_id=replica.pk, die_bytes={number % 4: GIB})
        replica_transition(replica.pk, State.FAILED, reason=HOSTILE)
        job_open(kind=Job.Kind.PULL, subject=HOSTILE, actor=HOSTILE)
        api_key_create(name=f"{HOSTILE[:50]}{number}", scopes=["admin"], actor=ACTOR)


def pages(model):
    opts = next(m for m in site._registry if m._meta.model_name == model)._meta
    row = opts.model.objects.first()
    yield reverse(f"admin:registry_{model}_changelist")
    yield reverse(f"admin:registry_{model}_change", args=[row.pk])
    yield reverse(f"admin:registry_{model}_history", args=[row.pk])


@pytest.mark.parametrize("model", MODELS)
def test_pages_are_cheap_and_escape_what_they_show(admin_client, rows, model):
    for url in pages(model):
        admin_client.get(url)  # the first view of a page fills Django's caches
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page = admin_client.get(url)
        assert page.status_code == 200, url
        assert len(queries) <= MAX_QUERIES, [q["sql"] for q in queries]
        text = page.content.decode()
        assert "<script>alert(1)" not in text
        assert "<img src=x" not in text
        assert "(&#x27;" not in text, "a Python value is shown as it is"


def test_the_front_page_escapes_what_it_shows(admin_client, rows):
    text = admin_client.get("/admin/").content.decode()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert(1)" not in text
    assert "<img src=x" not in text


@pytest.mark.parametrize("page", ["unload", "retry"])
def test_confirmations_escape_what_they_show(admin_client, rows, page):
    url = reverse(f"admin:registry_replica_{page}", args=[Replica.objects.first().pk])
    text = admin_client.get(url).content.decode()
    assert "<script>alert(1)" not in text


def test_the_load_page_escapes_what_it_shows(admin_client, rows):
    url = reverse("admin:registry_artifact_load", args=[Artifact.objects.first().pk])
    text = admin_client.get(url).content.decode()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert(1)" not in text


@pytest.mark.parametrize("model", MODELS)
def test_a_list_costs_the_same_for_more_rows(admin_client, rows, model, make_artifact):
    url = reverse(f"admin:registry_{model}_changelist")

    def cost():
        with CaptureQueriesContext(connection) as queries:
            admin_client.get(url)
        return len(queries)

    cost()
    before = cost()
    for number in range(5):
        artifact = make_artifact(f"more-{number}")
        replica_request(artifact=artifact, served_name=f"more-{number}", actor=ACTOR)
        api_key_create(name=f"more-{number}", scopes=["admin"], actor=ACTOR)
    assert cost() == before


@pytest.mark.parametrize("query", ["?q=chat", "?q=%00", "?q=%27%22%3C", "?state__exact=failed"])
def test_search_and_filters_answer(admin_client, rows, query):
    assert admin_client.get(reverse("admin:registry_replica_changelist") + query).status_code in (
        200,
        302,
    )


SEEN = {
    "viewer": {"artifact", "replica", "job", "die"},
    "operator": {"artifact", "replica", "job", "die", "auditevent"},
    "administrator": set(MODELS),
    "": set(),
}


@pytest.mark.parametrize("group", SEEN)
def test_groups_see_what_is_theirs(as_group, rows, group):
    client = as_group(group)
    seen = {
        model
        for model in MODELS
        if client.get(reverse(f"admin:registry_{model}_changelist")).status_code == 200
    }
    assert seen == SEEN[group]


def test_the_ready_groups_hold_what_they_should(db):
    def of(name):
        codes = Group.objects.get(name=name).permissions.values_list("codename", flat=True)
        return {code for code in codes if not code.startswith("view_")}

    assert of("viewer") == set()
    assert of("operator") == {"load_model", "unload_model", "pull_model"}
    assert of("administrator") == of("operator") | {"add_apikey", "change_apikey"}


def test_permissions_of_the_migration_are_those_of_the_models(db):
    """Made ahead of Django's own, they must not exist twice or under a name of their own."""
    for codename, name in (
        ("load_model", "Can load models"),
        ("unload_model", "Can unload models"),
        ("pull_model", "Can pull model files"),
        ("view_apikey", "Can view API key"),
        ("view_artifact", "Can view model file"),
    ):
        assert (
            Permission.objects.get(content_type__app_label="registry", codename=codename).name
            == name
        )


def test_anonymous_visitors_are_sent_to_the_login(client, rows):
    for model in MODELS:
        answer = client.get(reverse(f"admin:registry_{model}_changelist"))
        assert answer.status_code == 302
        assert "/admin/login/" in answer.url


def test_the_audit_trail_cannot_be_changed(admin_client, rows):
    event = AuditEvent.objects.first()
    for page in ("change", "delete"):
        url = reverse(f"admin:registry_auditevent_{page}", args=[event.pk])
        assert admin_client.post(url, {"actor": "me", "post": "yes"}).status_code == 403
    assert admin_client.get(reverse("admin:registry_auditevent_add")).status_code == 403


@pytest.mark.parametrize("model", ["user", "group"])
def test_accounts_are_managed_here(admin_client, model):
    for page in ("changelist", "add"):
        assert admin_client.get(reverse(f"admin:auth_{model}_{page}")).status_code == 200


def test_the_audit_trail_is_exported_as_csv(admin_client, db):
    """A row an event; a target that looks like a formula stays text in a spreadsheet."""
    event = audit_record(actor=ACTOR, action="x", target="=HYPERLINK(1)", detail={"a": 1})
    sent = {"action": "export_csv", "_selected_action": [event.pk]}
    answer = admin_client.post(reverse("admin:registry_auditevent_changelist"), sent)
    head, row = csv.reader(answer.content.decode().splitlines())
    assert head == ["at", "actor", "action", "target", "outcome", "request_id", "detail"]
    assert row[1:5] == [ACTOR, "x", "'=HYPERLINK(1)", "ok"]
    assert row[6] == '{"a": 1}'


def test_a_die_that_is_gone_is_not_listed(admin_client, two_cards):
    dies_record([measured(0, pci_address="0000:05:00.0", failure="fell off the bus")])
    text = admin_client.get(reverse("admin:registry_die_changelist")).content.decode()
    assert "0000:05:00.0" in text
    assert "fell off the bus" in text
    assert set(re.findall(r"registry/die/(\d+)/change", text)) == {str(two_cards[0].pk)}
    dies_record([])
    text = admin_client.get(reverse("admin:registry_die_changelist")).content.decode()
    assert "No CUDA driver was found" in text
