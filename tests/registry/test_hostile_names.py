"""Names out of model files, requests and key forms: shown as text, on one line, wherever they are shown."""

from __future__ import annotations

import logging

import pytest
from django.contrib.auth.models import User
from django.test import Client

from inference import control
from registry import services
from registry.errors import InvalidName, InvalidValue, PathRefused, RegistryError
from registry.models import Artifact
from registry.states import State
from tests.registry.admin_pages import address_of, admin_paths, make_rows

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"
HOSTILE = {
    "script": SCRIPT,
    "attribute": '" onmouseover=alert(1) x="',
    "template": "{{ 7*7 }}{% debug %}",
    "lines": "a\r\nSet-Cookie: x=1\r\n\r\nINFO forged",
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "reversed": "\u202egnp.exe\u2066x",
    "nul": "a\0b",
    "long": "x" * 10_000,
}
# What a terminal or a browser would act on.
ACTIVE = (SCRIPT, 'onmouseover=alert(1) x="', "\x1b", "\u202e", "\u2066", "\0")


def test_no_page_of_the_admin_site_acts_on_a_name(two_cards, make_artifact) -> None:
    """In the fields a model file fills, and in those that tell what somebody asked for."""
    user = User.objects.create_superuser("root")
    rows = make_rows(make_artifact(), two_cards[0], user)
    named = []
    for number, name in enumerate(HOSTILE.values()):
        artifact = services.artifact_register(
            path=f"/models/bad-{number}.gguf",
            digest=f"sha256:{number:064}",
            source=name,
            info={"name": name, "architecture": name, "quant_mix": name, "context_len": 64},
        )
        failed = services.replica_request(
            artifact=artifact, served_name=f"bad-{number}", actor=name
        )
        services.replica_transition(failed.public_id, State.FAILED, reason=name)
        for refused in (services.replica_request_unload, services.api_key_revoke):
            with pytest.raises(RegistryError):
                refused(wanted=name, actor=name)
        named.append({"replica": failed, "artifact": artifact})
    client = Client()
    client.force_login(user)
    addresses = [address_of(path, rows) for path in admin_paths()]
    for kind in named:
        for page in ("replica/<id>/change/", "replica/<id>/unload", "artifact/<id>/load"):
            addresses.append(address_of(f"/admin/registry/{page}", rows | kind))
    for address in addresses:
        page = client.get(address).content.decode()
        assert [each for each in ACTIVE if each in page] == [], address


@pytest.mark.parametrize("name", [*HOSTILE.values(), "", " ", "a b", "a'b", "ключ\n"], ids=ascii)
def test_a_served_name_is_letters_digits_and_a_few_marks(artifact: Artifact, name: str) -> None:
    """So it needs no escaping in metrics, logs and addresses. The refusal repeats no more than its start."""
    request = control.LoadRequest(name=name, artifact=str(artifact.pk), wait=False)
    with pytest.raises(InvalidName) as refusal:
        control.load(request, "test")
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("name", ["lines", "escape", "reversed", "nul"])
def test_a_file_whose_name_does_not_print_is_refused(db, name: str) -> None:
    """Pages and logs show where a file lies; a name that is only unusual is fine."""
    fields = {"digest": "sha256:" + "0" * 64, "source": "test", "info": {}}
    with pytest.raises(PathRefused, match="rename it") as refusal:
        services.artifact_register(path=f"/models/{HOSTILE[name]}.gguf", **fields)
    assert str(refusal.value).isprintable()
    services.artifact_register(path="/models/Größe 模型 <b>.gguf", **fields)


@pytest.mark.parametrize("name", ["lines", "escape", "reversed", "nul", "long"])
def test_a_keys_name_is_one_short_printable_line(db, name: str) -> None:
    with pytest.raises(InvalidValue):
        services.api_key_create(name=HOSTILE[name], scopes=["inference"], actor="test")


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_no_line_of_the_log_is_forged(
    artifact: Artifact, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    replica = services.replica_request(artifact=artifact, served_name="chat", actor=name)
    with caplog.at_level(logging.DEBUG):
        services.replica_transition(replica.public_id, State.FAILED, reason=name)
    for record in caplog.records:
        assert record.getMessage().isprintable()
        assert len(record.getMessage()) < 3000
