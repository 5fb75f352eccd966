"""The playground's page: who sees it, what it offers, and that its token opens inference alone."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from registry.page_tokens import page_token_user
from registry.services import replica_request
from registry.states import State
from tests.registry.conftest import ACTOR
from tests.registry.test_replica_unload import replica_in

pytestmark = pytest.mark.django_db


def page_of(client, query=""):
    return client.get(reverse("playground") + query)


def test_it_offers_what_is_ready(operator, make_artifact):
    replica_in(make_artifact("a"), State.READY, "first")
    replica_request(artifact=make_artifact("b"), served_name="second", actor=ACTOR)
    text = page_of(operator, "?model=first").content.decode()
    assert '<option value="first" selected>first' in text
    assert "second</option>" not in text


def test_what_can_chat_comes_first_and_what_cannot_says_so(operator, make_artifact):
    for name, chats in (("a-base", False), ("chat", True)):
        artifact = make_artifact(name)
        artifact.has_chat_template = chats
        artifact.save()
        replica_in(artifact, State.READY, name)
    options = re.findall(r"<option[^>]*>([^<]*)</option>", page_of(operator).content.decode())
    assert options == ["chat", "a-base (no chat template)"]


def test_with_nothing_ready_it_says_what_to_do(operator):
    text = page_of(operator).content.decode()
    assert "No model is loaded." in text
    assert '<form id="playground"' not in text


def test_its_token_is_its_users(operator, artifact):
    replica_in(artifact, State.READY, "chat")
    page = page_of(operator)
    assert "no-store" in page.headers["Cache-Control"]
    told = re.search(r'id="playground-told"[^>]*>([^<]*)<', page.content.decode())
    assert page_token_user(json.loads(told[1])["token"]) == "operator@example"


def test_who_may_not_see_models_sees_no_page(as_group, client):
    assert page_of(as_group("")).status_code == 403
    assert page_of(client).status_code == 302  # to the login


def test_names_are_shown_as_text(operator, artifact):
    replica_in(artifact, State.READY, "a:b/c")
    text = page_of(operator, "?model=<script>alert(1)</script>").content.decode()
    assert "<script>alert" not in text
