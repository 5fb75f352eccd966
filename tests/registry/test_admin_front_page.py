"""The front page of the admin site: what is loaded, what could be, and the buttons between them."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from registry.services import (
    binding_create,
    dies_measured,
    replica_request,
    replica_request_unload,
)
from registry.states import State
from tests.registry.conftest import ACTOR, GIB, measured
from tests.registry.test_replica_unload import replica_in

pytestmark = pytest.mark.django_db


def front(client):
    return client.get("/admin/").content.decode()


async def front_of_login(client):
    return (await client.get("/admin/login/")).content.decode()


def load_of(artifact):
    return reverse("admin:registry_artifact_load", args=[artifact.pk])


def unload_of(replica):
    return reverse("admin:registry_replica_unload", args=[replica.pk])


async def test_its_own_style_is_there(async_client):
    """Long names wrap by it."""
    found = re.search(r"/static/registry/admin[^\"]*\.css", await front_of_login(async_client))
    assert found and (await async_client.get(found[0])).status_code == 200


def test_it_lists_what_is_loaded(operator, artifact):
    assert "No model is loaded" in front(operator)
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    text = front(operator)
    assert reverse("admin:registry_replica_change", args=[replica.pk]) in text
    assert "Requested" in text
    assert "SmolLM2-135M.gguf" in text


def test_models_are_loaded_and_unloaded_from_it(operator, artifact):
    replica = replica_in(artifact, State.READY)
    text = front(operator)
    assert "Load a model" in text
    assert f'href="{load_of(artifact)}"' in text
    assert f'href="{unload_of(replica)}"' in text


def test_what_is_being_unloaded_has_no_button_for_it(operator, artifact):
    replica = replica_in(artifact, State.READY)
    replica_request_unload(wanted=replica.pk, actor=ACTOR)
    assert unload_of(replica) not in front(operator)


def test_without_a_model_file_it_says_how_to_get_one(operator, db):
    assert reverse("admin:registry_artifact_pull") in front(operator)


def test_viewers_see_no_buttons(as_group, artifact):
    replica = replica_in(artifact, State.READY)
    text = front(as_group("viewer"))
    assert "SmolLM2-135M.gguf" in text
    assert "Load a model" not in text
    assert load_of(artifact) not in text
    assert unload_of(replica) not in text


def test_it_tells_strangers_nothing(as_group, artifact):
    replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    text = front(as_group())
    assert "chat" not in text
    assert "SmolLM2" not in text


def test_pages_bring_their_icon_along(client, db):
    """No browser asks for /favicon.ico, which does not exist."""
    assert (
        '<link rel="icon" href="data:image/svg+xml,' in client.get("/admin/login/").content.decode()
    )


def test_a_host_without_dies_says_why(operator, db):
    text = operator.get(reverse("admin:registry_die_changelist")).content.decode()
    assert "No CUDA driver was found on this host; models run on the CPU." in text


def test_a_host_with_dies_has_nothing_to_explain(operator, two_cards):
    text = operator.get(reverse("admin:registry_die_changelist")).content.decode()
    assert "No CUDA driver" not in text


def test_dies_are_listed_with_who_is_on_them(as_group, artifact, two_cards):
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    binding_create(replica_id=replica.pk, die_bytes={2: 3 * GIB})
    dies_measured([measured(1, failure="<b>fell</b> off the bus")])
    text = front(as_group("viewer"))
    section = text[text.index('id="dies"') :]
    section = section[: section.index("</section>")]
    assert [f"die {n}" in section for n in range(5)] == [True] * 4 + [False]
    assert "card 1, Tesla K80" in section
    assert reverse("admin:registry_replica_change", args=[replica.pk]) in section
    assert "3.0 GiB" in section
    assert "8.0 GiB" in section
    assert "failed: &lt;b&gt;fell&lt;/b&gt; off the bus" in section


def test_a_host_without_dies_shows_no_table_of_them(operator, artifact):
    assert 'id="dies"' not in front(operator)


def test_dies_are_shown_to_those_who_may_see_them(make_user, client, two_cards):
    client.force_login(make_user())
    assert 'id="dies"' not in front(client)
