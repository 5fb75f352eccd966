"""Loading a model file from the admin site."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from registry.models import AuditEvent, Replica
from registry.services import replica_request
from tests.registry.conftest import ACTOR, GIB

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _measured_host(settings):
    settings.HOST_MEMORY_PROBE = "tests.registry.test_admin_load.eight_gib"


def eight_gib() -> int:
    return 8 * GIB


def url_of(artifact):
    return reverse("admin:registry_artifact_load", args=[artifact.pk])


def fields_of(page):
    """The names and values the page's form would send unchanged."""
    inputs = re.findall(r"<input[^>]*>", page.content.decode())
    pairs = ((re.search(r'name="([^"]*)"', i), re.search(r'value="([^"]*)"', i)) for i in inputs)
    return {name[1]: value[1] if value else "" for name, value in pairs if name}


def test_the_page_says_what_it_takes_and_changes_nothing(operator, artifact):
    page = operator.get(url_of(artifact))
    text = page.content.decode()
    assert page.status_code == 200
    for said in ("Memory needed", "8.0 GiB", "the CPU", 'value="smollm2-135m"'):
        assert said in text
    assert not Replica.objects.exists()


def test_it_works(operator, artifact):
    sent = {**fields_of(operator.get(url_of(artifact))), "served_name": "chat"}
    answer = operator.post(url_of(artifact), sent)
    assert answer.status_code == 302
    replica = Replica.objects.get()
    assert (replica.served_name, replica.artifact, replica.context_len) == ("chat", artifact, 0)
    assert AuditEvent.objects.get().actor == "user:operator@example"
    assert answer.url == reverse("admin:registry_replica_change", args=[replica.pk])
    assert "being loaded as &#x27;chat&#x27;" in operator.get(answer.url).content.decode()


def test_float_weights_can_be_made_smaller(operator, make_artifact):
    """D13; asked only where there are any."""
    floats = make_artifact("floats", quant_mix="F16 79 %, Q8_0 21 %")
    sent = fields_of(operator.get(url_of(floats)))
    operator.post(url_of(floats), {**sent, "quantize": "on"})
    assert Replica.objects.get().quantize
    assert "quantize" in sent
    assert "quantize" not in fields_of(
        operator.get(url_of(make_artifact("q", quant_mix="Q4_K 100 %")))
    )


def test_a_double_click_loads_once(operator, artifact):
    sent = fields_of(operator.get(url_of(artifact)))
    answers = [operator.post(url_of(artifact), sent) for _ in range(2)]
    assert [a.status_code for a in answers] == [302, 302]
    assert Replica.objects.count() == 1


def test_the_page_says_whose_memory_it_is(operator, artifact):
    """The positions of the pool, and how many share them; not the server's own memory."""
    text = operator.get(url_of(artifact)).content.decode()
    assert "90.0 MiB: 4,096 positions shared by 8 requests of up to 2,048 tokens" in text
    assert "MiB for this model. The server itself takes some 250 MiB, once." in text


def test_the_parts_make_the_sum(operator, artifact):
    text = operator.get(url_of(artifact)).content.decode()
    assert "244.0 MiB for this model" in text
    for part in ("90.0 MiB</dd>", "90.0 MiB: 4,096 positions", "64.0 MiB at most: activations"):
        assert part in text


def test_dies_are_asked_for_where_there_are_some(operator, artifact):
    assert "dies" not in fields_of(operator.get(url_of(artifact)))


def test_a_model_that_is_loaded_stays_the_only_one_unless_another_is_asked_for(operator, artifact):
    """Its memory is not taken twice by somebody who did not know."""
    first = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    sent = {**fields_of(operator.get(url_of(artifact))), "served_name": "chat"}
    del sent["another"]  # a box that is not ticked
    answer = operator.post(url_of(artifact), sent)
    assert answer.url == reverse("admin:registry_replica_change", args=[first.pk])
    assert Replica.objects.get() == first
    sent = {**fields_of(operator.get(url_of(artifact))), "served_name": "chat", "another": "on"}
    operator.post(url_of(artifact), sent)
    assert Replica.objects.filter(served_name="chat").count() == 2


def test_what_is_not_loaded_has_no_other(operator, artifact):
    assert "another" not in fields_of(operator.get(url_of(artifact)))


def test_what_does_not_fit_says_why(operator, make_artifact):
    """The limit and the fix stand on the page before anything is tried."""
    big = make_artifact("Big", weight_bytes=9 * GIB)
    text = operator.get(url_of(big)).content.decode()
    assert "Big needs 9.2 GiB" in text
    assert "8.0 GiB of host memory are available" in text
    assert "choose a smaller quantization" in text


def test_dies_are_previewed(operator, artifact, two_cards):
    page = operator.get(url_of(artifact))
    text = page.content.decode()
    assert "dies" in fields_of(page)
    assert "Die 3 free" in text
    assert "die 0" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"served_name": "no spaces"}, "no spaces"),
        ({"served_name": ""}, "This field is required"),
        ({"context_len": "99999"}, "Is 99999, but SmolLM2-135M was trained for 2,048 tokens."),
        ({"dies": "0;1"}, "Write die numbers separated by commas"),
        ({"dies": "7"}, "There is no die 7 on this host"),
    ],
)
def test_refusals_are_shown_on_the_page(operator, artifact, two_cards, change, said):
    sent = {**fields_of(operator.get(url_of(artifact))), **change}
    answer = operator.post(url_of(artifact), sent)
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert not Replica.objects.exists()


def test_a_page_that_was_sent_without_its_key_can_be_sent_again(operator, artifact):
    """Whatever a browser or its extension left out of the first attempt."""
    sent = {"served_name": "chat", "context_len": "64"}
    again = fields_of(operator.post(url_of(artifact), sent))
    assert (again["served_name"], again["context_len"]) == ("chat", "64")
    assert operator.post(url_of(artifact), again).status_code == 302
    assert Replica.objects.get().context_len == 64


def test_a_context_length_of_0_is_the_default(operator, artifact):
    sent = {**fields_of(operator.get(url_of(artifact))), "context_len": "0"}
    assert operator.post(url_of(artifact), sent).status_code == 302
    assert Replica.objects.get().context_len == 0


def test_a_taken_name_is_refused(operator, artifact, make_artifact):
    replica_request(artifact=make_artifact("Other"), served_name="chat", actor=ACTOR)
    sent = {**fields_of(operator.get(url_of(artifact))), "served_name": "chat"}
    assert (
        "already serves another model file"
        in operator.post(url_of(artifact), sent).content.decode()
    )


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("group", ["viewer", ""])
def test_without_the_permission_it_is_refused(as_group, artifact, group, method):
    answer = getattr(as_group(group), method)(url_of(artifact), {"served_name": "chat"})
    assert answer.status_code == 403
    assert not Replica.objects.exists()


def test_without_the_permission_there_is_no_button(as_group, operator, artifact):
    page = reverse("admin:registry_artifact_change", args=[artifact.pk])
    assert url_of(artifact) in operator.get(page).content.decode()
    shown = as_group("viewer").get(page)
    assert shown.status_code == 200
    assert url_of(artifact) not in shown.content.decode()


def test_the_list_has_a_button_for_those_who_may(as_group, operator, artifact):
    page = reverse("admin:registry_artifact_changelist")
    assert f'href="{url_of(artifact)}"' in operator.get(page).content.decode()
    assert url_of(artifact) not in as_group("viewer").get(page).content.decode()


def test_a_forged_post_is_refused(make_user, artifact):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    assert client.post(url_of(artifact), {"served_name": "chat"}).status_code == 403
    assert not Replica.objects.exists()


def test_an_unknown_file_is_not_found(operator, db):
    assert operator.get(reverse("admin:registry_artifact_load", args=[77])).status_code == 404
