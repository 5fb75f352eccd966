"""Every admin page with every kind of visitor; neither a look nor another site's form changes anything."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client

from tests.registry.admin_pages import address_of, admin_paths, all_rows, make_rows

pytestmark = pytest.mark.django_db

PATHS = admin_paths()
LOGIN = "/admin/login/"
# What each group may look at; everything else is refused to it.
FRONT = {"/admin/", "/admin/password_change/", "/admin/password_change/done/", "/admin/search/"}


@pytest.fixture
def rows(artifact, two_cards) -> dict[str, Model]:
    return make_rows(artifact, two_cards[0], User.objects.create_superuser("root"))


@pytest.fixture
def root(rows: dict[str, Model]) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(rows["user"])
    return client


def test_the_inventory_has_the_pages_that_act() -> None:
    for path in (
        "/admin/registry/replica/<path:object_id>/unload",
        "/admin/registry/artifact/<path:object_id>/load",
        "/admin/registry/apikey/<path:object_id>/revoke",
        "/admin/registry/apikey/add/",
        "/admin/playground/",
    ):
        assert any(each.rstrip("/") == path.rstrip("/") for each in PATHS), (path, PATHS)


def test_who_is_no_staff_is_sent_to_the_login(client: Client, rows: dict[str, Model]) -> None:
    """Whether logged in or not."""
    for account in (None, User.objects.create_user("visitor")):
        if account is not None:
            client.force_login(account)
        for path in PATHS:
            for ask in (client.get, client.post):
                answer = ask(address_of(path, rows))
                assert answer.status_code == 302, path
                assert answer["Location"].startswith(LOGIN), path


def test_staff_without_permission_see_no_row_and_change_none(
    as_group, rows: dict[str, Model]
) -> None:
    client, before = as_group(), all_rows()
    for path in PATHS:
        looked = client.get(address_of(path, rows), follow=path.endswith("<path:object_id>/"))
        allowed = (200, 302, 404) if path in FRONT or path.startswith("/admin/r/") else (403, 404)
        assert looked.status_code in allowed, path
        client.post(address_of(path, rows), {"mode": "force", "confirmed": "yes"})
    assert all_rows() == before


@pytest.mark.parametrize("group", ["viewer", "operator", "administrator"])
def test_no_group_meets_a_failure(as_group, rows: dict[str, Model], group: str) -> None:
    client = as_group(group)
    found = {path: client.get(address_of(path, rows)).status_code for path in PATHS}
    assert {path: status for path, status in found.items() if status >= 500} == {}
    assert found["/admin/auth/user/"] == 403
    assert found["/admin/registry/replica/"] == 200
    assert found["/admin/registry/apikey/"] == (200 if group == "administrator" else 403)


def test_a_look_changes_nothing(root: Client, rows: dict[str, Model]) -> None:
    """Also with the words in the address that a form would send."""
    before = all_rows()
    words = (
        "?mode=force&timeout_s=0&confirmed=yes&action=unload_selected&_selected_action=1&post=yes"
    )
    for path in PATHS:
        for query in ("", words):
            for method in (root.get, root.head) if query else (root.get, root.options):
                assert method(address_of(path, rows) + query).status_code < 500, path
    assert all_rows() == before


def test_a_form_of_another_site_is_refused(root: Client, rows: dict[str, Model]) -> None:
    """Without the token, with a wrong one, and with one that is no token at all."""
    before = all_rows()
    for path in PATHS:
        for token in ({}, {"csrfmiddlewaretoken": "a" * 64}, {"csrfmiddlewaretoken": "\0<script>"}):
            sent = {"mode": "force", "name": "x", "scopes": "admin", **token}
            answer = root.post(
                address_of(path, rows), sent, headers={"Origin": "https://evil.example"}
            )
            assert answer.status_code in (403, 405), path
    assert all_rows() == before


def test_a_row_that_is_not_there_is_no_failure(root: Client) -> None:
    hostile = ("0", "9" * 21, "nothing", "%00", "..%2F..", "'%20OR%201=1--", "%3Cscript%3E")
    for path in (path for path in PATHS if "<" in path):
        for key in hostile:
            answer = root.get(address_of(path, {path.split("/")[3]: _Keyed(key)}))  # type: ignore[dict-item]
            assert answer.status_code < 500, (path, key)


class _Keyed:
    def __init__(self, key: str) -> None:
        self.pk = key
