"""Whatever a form of the admin site refuses, its page says why: no button that does nothing."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils.html import escape

from registry.models import ApiKey, Job, Replica
from registry.states import State, Wanted
from tests.registry.test_replica_unload import replica_in

pytestmark = pytest.mark.django_db

NOTHING: dict[str, str] = {}
GARBAGE = {
    "served_name": "no spaces",
    "request_key": "k" * 65,
    "context_len": "x",
    "dies": "0;1",
    "source": "s" * 1025,
    "mode": "gently",
    "timeout_s": "-1",
    "name": "a\u202eb",
    "scopes": "root",
    "expires_at_0": "tomorrow",
    "expires_at_1": "noon",
}


@pytest.fixture
def pages(artifact, two_cards):
    """The address of every page of our own that takes a form."""
    replica = replica_in(artifact, State.READY)
    return {
        "load": reverse("admin:registry_artifact_load", args=[artifact.pk]),
        "pull": reverse("admin:registry_artifact_pull"),
        "unload": reverse("admin:registry_replica_unload", args=[replica.pk]),
        "key": reverse("admin:registry_apikey_add"),
    }


def form_of(answer):
    return (
        answer.context["adminform"].form
        if "adminform" in answer.context
        else answer.context["form"]
    )


@pytest.mark.parametrize("sent", [NOTHING, GARBAGE], ids=["nothing", "garbage"])
@pytest.mark.parametrize("page", ["load", "pull", "unload", "key"])
def test_every_error_is_on_the_page(admin_client, pages, page, sent):
    answer = admin_client.post(pages[page], sent)
    assert answer.status_code == 200
    errors = [each for found in form_of(answer).errors.values() for each in found]
    text = answer.content.decode()
    assert errors
    assert not [each for each in errors if escape(each) not in text]
    assert not ApiKey.objects.exists()
    assert not Job.objects.filter(kind=Job.Kind.PULL).exists()
    assert Replica.objects.filter(wanted=Wanted.LOADED).count() == 1


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "Request key: The page was sent without it; please try again"),
        ("k" * 65, "Request key: Ensure this value has at most 64 characters"),
        ("a\0b", "Request key: Null characters are not allowed."),
    ],
)
def test_an_error_of_a_field_that_is_not_seen_names_it(operator, artifact, key, said):
    sent = {"served_name": "chat", **({} if key is None else {"request_key": key})}
    answer = operator.post(reverse("admin:registry_artifact_load", args=[artifact.pk]), sent)
    assert said in answer.content.decode()
    assert not Replica.objects.exists()


def test_a_page_that_was_not_sent_shows_no_error(admin_client, pages):
    for address in pages.values():
        assert "errornote" not in admin_client.get(address).content.decode()
