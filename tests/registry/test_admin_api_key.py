"""API keys in the admin site: made, shown once, revoked."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from registry.models import ApiKey, AuditEvent
from registry.services import api_key_check, api_key_create
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db

ADD = "/admin/registry/apikey/add/"
SENT = {"name": "laptop", "scopes": ["inference"], "expires_at_0": "", "expires_at_1": ""}


@pytest.fixture
def administrator(as_group):
    return as_group("administrator")


def shown_secret(page):
    return re.search(r'value="(pn-[\w-]+)"', page.content.decode())[1]


def test_the_secret_is_shown_once_and_kept_nowhere(administrator):
    page = administrator.post(ADD, SENT)
    secret = shown_secret(page)
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    assert api_key_check(secret).name == "laptop"
    assert secret not in str(page.cookies)
    key = ApiKey.objects.get()
    for url in ("/admin/", "/admin/registry/apikey/", f"/admin/registry/apikey/{key.pk}/change/"):
        assert secret not in administrator.get(url).content.decode()


def test_scopes_and_expiry_are_taken(administrator):
    sent = {**SENT, "scopes": ["inference", "admin"], "expires_at_0": "2999-01-01"}
    administrator.post(ADD, {**sent, "expires_at_1": "00:00"})
    key = ApiKey.objects.get()
    assert (key.scopes, key.expires_at.year) == ("admin inference", 2999)
    assert AuditEvent.objects.get().actor == "user:administrator@example"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scopes": []}, "This field is required"),
        ({"scopes": ["root"]}, "Select a valid choice"),
        ({"name": ""}, "This field is required"),
        ({"name": "a\u202eb"}, "printable"),
        ({"name": "taken"}, "is in use; revoke it first"),
        ({"expires_at_0": "1999-01-01", "expires_at_1": "00:00"}, "must lie in the future"),
    ],
)
def test_refusals_are_shown_on_the_page(administrator, change, said):
    api_key_create(name="taken", scopes=["admin"], actor=ACTOR)
    page = administrator.post(ADD, {**SENT, **change})
    assert page.status_code == 200
    assert said in page.content.decode()
    assert ApiKey.objects.count() == 1


def test_a_key_is_revoked_after_a_confirmation(administrator):
    key, secret = api_key_create(name="laptop", scopes=["inference"], actor=ACTOR)
    url = reverse("admin:registry_apikey_revoke", args=[key.pk])
    assert "cannot be undone" in administrator.get(url).content.decode()
    assert api_key_check(secret) is not None
    for _double_click in range(2):
        assert administrator.post(url).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None


@pytest.mark.parametrize("group", ["viewer", "operator"])
def test_others_cannot_make_or_revoke_keys(as_group, group):
    key, _secret = api_key_create(name="laptop", scopes=["inference"], actor=ACTOR)
    client = as_group(group)
    assert client.post(ADD, SENT).status_code == 403
    url = reverse("admin:registry_apikey_revoke", args=[key.pk])
    assert client.post(url).status_code == 403
    key.refresh_from_db()
    assert key.is_usable
    assert ApiKey.objects.count() == 1


def test_a_key_cannot_be_edited(admin_client):
    key, _secret = api_key_create(name="laptop", scopes=["inference"], actor=ACTOR)
    url = reverse("admin:registry_apikey_change", args=[key.pk])
    assert admin_client.post(url, {**SENT, "scopes": ["admin"]}).status_code == 403
    key.refresh_from_db()
    assert key.scopes == "inference"
