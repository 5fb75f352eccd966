"""A database that is locked or gone is a 503 of the control routes, and nothing to generation."""

from __future__ import annotations

import pytest
from django.db.utils import OperationalError

from inference import control
from inference.api import auth
from registry import services
from registry.services import api_keys
from tests.fakes.live_server import LiveServer
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire

pytestmark = pytest.mark.django_db(transaction=True)
SECRETS = ("locked", "no such table", "registry_", "Traceback", "sqlite")


def locked(*_args: object, **_kwargs: object) -> None:
    raise OperationalError("database is locked: no such table: registry_replica")


@pytest.fixture
def live(serving: FakeServing, server: LiveServer) -> Wire:
    serving.say("yes")
    return Wire(server)


@pytest.fixture
def token() -> str:
    return services.api_key_create(name="ops", scopes=["admin"], actor="test")[1]


@pytest.mark.parametrize(
    ("act", "method", "path", "body"),
    [
        ("load", "POST", "/admin/models/load", {"name": "x", "artifact": "y"}),
        ("unload", "POST", "/admin/models/unload", {"name": "x"}),
        ("dies", "GET", "/admin/dies", None),
    ],
)
def test_a_control_route_says_that_it_is_the_database(
    live: Wire, token: str, monkeypatch: pytest.MonkeyPatch, act: str, method: str, path: str, body
) -> None:
    monkeypatch.setattr(control, act, locked)
    answer = live.ask(method, path, body, Authorization=f"Bearer {token}")
    assert (answer.status, answer.error["code"]) == (503, "database_unavailable")
    assert answer.headers["retry-after"] == "5"
    assert not any(secret in answer.body.decode() for secret in SECRETS)


def test_generation_goes_on_with_the_keys_that_were_known(
    live: Wire, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every route that needs a key; a key nobody knew is still refused."""
    assert live.get("/v1/models", Authorization=f"Bearer {token}").status == 200
    monkeypatch.setattr(api_keys, "_read_policy", locked)
    monkeypatch.setattr(services, "key_policy_in_memory", lambda: None)  # too old to be believed
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    for _ in range(3):
        known = live.post("/v1/chat/completions", body, Authorization=f"Bearer {token}")
        assert known.status == 200
        assert live.post("/v1/chat/completions", body, Authorization="Bearer x").status == 401
        assert live.post("/v1/chat/completions", body).status == 401


def test_a_door_that_nobody_could_look_at_stays_shut(
    live: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No keys were ever read: it is not known whether there are any."""
    monkeypatch.setattr(auth.services, "key_policy", locked)
    answer = live.chat()
    assert (answer.status, answer.error["code"]) == (503, "database_unavailable")
