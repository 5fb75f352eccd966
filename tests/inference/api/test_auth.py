"""Every route with every kind of caller. Keys are real rows, checked by the registry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from inference.api import auth
from registry import services
from registry.models import ApiKey
from registry.page_tokens import page_token
from tests.fakes.live_server import LiveServer
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

CHAT_BODY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
OPEN = [("GET", "/", None), ("GET", "/health", None)]
INFERENCE = [
    ("GET", "/v1/models", None),
    ("GET", "/models", None),
    ("GET", "/v1/models/tiny", None),
    ("GET", "/models/tiny", None),
    ("POST", "/v1/chat/completions", CHAT_BODY),
    ("POST", "/chat/completions", CHAT_BODY),
    ("POST", "/v1/completions", {"prompt": "Hi"}),
    ("POST", "/completions", {"prompt": "Hi"}),
    ("GET", "/metrics", None),
    ("GET", "/slots", None),
    ("GET", "/props", None),
    ("GET", "/cache/stats", None),
]
ANY_KEY = [("GET", "/v1/requests/req_none", None)]  # answers 404 to whoever may ask
CONTROL = [
    ("POST", "/admin/models/load", {"name": "x", "path": "/nowhere"}),
    ("POST", "/admin/models/unload", {"name": "nothing"}),
    ("POST", "/admin/models/pull", {"source": ""}),
    ("POST", "/admin/jobs/nothing/cancel", {}),
    ("GET", "/admin/jobs", None),
    ("GET", "/admin/jobs/nothing", None),
    ("GET", "/admin/dies", None),
]


@pytest.fixture
def live(serving: FakeServing, server: LiveServer) -> Wire:
    serving.say("yes")
    return Wire(server)


@pytest.fixture
def keys() -> dict[str, str]:
    """A token of every kind."""
    made = {}
    for name, scopes in (
        ("inference", ["inference"]),
        ("admin", ["admin"]),
        ("both", ["admin", "inference"]),
        ("revoked", ["admin", "inference"]),
        ("expired", ["admin", "inference"]),
    ):
        _, made[name] = services.api_key_create(name=name, scopes=scopes, actor="test")
    services.api_key_revoke(wanted="revoked", actor="test")
    past = timezone.now() - timedelta(seconds=1)
    ApiKey.objects.filter(name="expired").update(expires_at=past)
    made["unknown"] = made["both"][:-4] + "AAAA"
    made["nonsense"] = "sk-none"
    made["long"] = "x" * 5000
    return made


def ask(live: Wire, route: tuple[str, str, object], token: str | None = None) -> tuple[int, str]:
    method, path, body = route
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = live.ask(method, path, body, **headers)
    code = answer.error["code"] if answer.status >= 400 else ""
    return answer.status, code


def test_the_inventory_is_complete() -> None:
    """A new route must be put in one of the lists above."""
    from inference.api.urls import urlpatterns

    listed = {path for _, path, _ in OPEN + INFERENCE + CONTROL + ANY_KEY}
    routes = {"/" + str(p.pattern).replace("<path:model_id>", "tiny") for p in urlpatterns}
    routes = {each.replace("<str:request_id>", "req_none") for each in routes}
    routes = {each.replace("<str:job_id>", "nothing") for each in routes}
    assert routes == listed


@pytest.mark.parametrize("route", OPEN, ids=lambda r: r[1])
def test_open_routes_are_open(live: Wire, keys: dict[str, str], route: tuple) -> None:
    for token in (None, *keys.values()):
        assert ask(live, route, token)[0] == 200


@pytest.mark.parametrize("route", INFERENCE, ids=lambda r: r[1])
def test_inference_is_open_until_a_key_exists(live: Wire, route: tuple) -> None:
    assert ask(live, route)[0] == 200
    services.api_key_create(name="first", scopes=["inference"], actor="test")
    assert ask(live, route) == (401, "missing_api_key")


@pytest.mark.parametrize("route", INFERENCE, ids=lambda r: r[1])
def test_inference_with_every_key(live: Wire, keys: dict[str, str], route: tuple) -> None:
    """The admin scope includes it: whoever may load a model may try it."""
    answers = {name: ask(live, route, token) for name, token in keys.items()}
    assert answers == {
        "inference": (200, ""),
        "both": (200, ""),
        "admin": (200, ""),
        "revoked": (401, "invalid_api_key"),
        "expired": (401, "invalid_api_key"),
        "unknown": (401, "invalid_api_key"),
        "nonsense": (401, "invalid_api_key"),
        "long": (401, "invalid_api_key"),
    }


@pytest.mark.parametrize("route", ANY_KEY, ids=lambda r: r[1])
def test_what_became_of_a_request_with_every_key(
    live: Wire, keys: dict[str, str], route: tuple
) -> None:
    assert ask(live, route) == (401, "missing_api_key")
    for name, token in keys.items():
        expected = 404 if name in ("inference", "both", "admin") else 401
        assert ask(live, route, token)[0] == expected, name


def test_an_invented_key_does_until_one_exists(live: Wire) -> None:
    """Clients of OpenAI insist on sending some key; from the first real one on, it must be right."""
    assert ask(live, INFERENCE[0], "none") == (200, "")
    services.api_key_create(name="first", scopes=["inference"], actor="test")
    assert ask(live, INFERENCE[0], "none") == (401, "invalid_api_key")


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz"])
def test_headers_without_a_key_are_anonymous(live: Wire, value: str) -> None:
    assert live.get("/v1/models", Authorization=value).status == 200


@pytest.mark.parametrize("header", ["X-Api-Key", "x-api-key"])
def test_the_other_header_works_too(live: Wire, keys: dict[str, str], header: str) -> None:
    assert live.get("/v1/models").status == 401
    assert live.get("/v1/models", **{header: keys["inference"]}).status == 200
    assert live.get("/v1/models", **{header: "wrong"}).status == 401


def test_a_key_can_be_required(live: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """PANTHEON_REQUIRE_API_KEY, also before the first key is made."""
    monkeypatch.setitem(settings.PANTHEON, "PANTHEON_REQUIRE_API_KEY", True)
    assert ask(live, INFERENCE[0]) == (401, "missing_api_key")
    assert ask(live, INFERENCE[0], "none") == (401, "invalid_api_key")


def test_a_refused_request_reaches_no_engine(
    live: Wire, serving: FakeServing, keys: dict[str, str]
) -> None:
    for token in (None, "sk-wrong", keys["revoked"], keys["expired"]):
        assert ask(live, INFERENCE[4], token)[0] == 401
    assert serving.num_accepted() == 0


@pytest.mark.parametrize("route", CONTROL, ids=lambda r: r[1])
def test_control_is_never_anonymous(live: Wire, route: tuple) -> None:
    """Not even while no key exists; an invented one does not do either."""
    assert ask(live, route) == (401, "missing_api_key")
    assert ask(live, route, "none") == (401, "invalid_api_key")


@pytest.mark.parametrize("route", CONTROL, ids=lambda r: r[1])
def test_control_with_every_key(live: Wire, keys: dict[str, str], route: tuple) -> None:
    """D16: the scope lets it through to the action, whose own refusals are 400 and 404 here."""
    past = {"admin", "both"}
    for name, token in keys.items():
        status, code = ask(live, route, token)
        if name in past:
            assert status in (200, 400, 404)
        elif name == "inference":
            assert (status, code) == (403, "insufficient_scope")
        else:
            assert (status, code) == (401, "invalid_api_key")


OPERATORS = ["load_model", "unload_model", "pull_model", "view_job", "view_die"]


@pytest.fixture
def browsers(serving: FakeServing) -> Iterator[dict[str, Client]]:
    """Logins of the admin site, their requests checked for CSRF tokens."""
    made = {}
    for name, is_staff, permissions in (
        ("user", False, OPERATORS),
        ("staff", True, []),
        ("operator", True, OPERATORS),
    ):
        user = User.objects.create_user(name, is_staff=is_staff)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        made[name] = Client(enforce_csrf_checks=True)
        made[name].force_login(user)
    made["superuser"] = Client(enforce_csrf_checks=True)
    made["superuser"].force_login(User.objects.create_superuser("root"))
    return made


def browse(client: Client, route: tuple[str, str, object], *, token: str = "") -> int:
    method, path, body = route
    headers = {"X-CSRFToken": token, "Host": "localhost"}
    if method == "GET":
        return client.get(path, headers=headers).status_code
    return client.post(path, body, content_type="application/json", headers=headers).status_code


@pytest.mark.parametrize("route", CONTROL, ids=lambda r: r[1])
def test_control_with_every_login(browsers: dict[str, Client], route: tuple) -> None:
    """D16: a staff session with the permission and a CSRF token."""
    token = "a" * 32
    for name, client in browsers.items():
        client.cookies["csrftoken"] = token
        status = browse(client, route, token=token)
        if name in ("operator", "superuser"):
            assert status in (200, 400, 404), name
        else:
            assert status == 403, name


def test_control_without_a_csrf_token(browsers: dict[str, Client]) -> None:
    """Another site's form cannot load models with a user's cookie; the refusal has the API's form."""
    for route in CONTROL[:2]:
        assert browse(browsers["superuser"], route) == 403
    answer = browsers["superuser"].post(
        "/admin/models/load", {}, content_type="application/json", headers={"Host": "localhost"}
    )
    assert answer.json()["error"]["code"] == "forbidden"


def test_a_login_alone_opens_no_inference(browsers: dict[str, Client]) -> None:
    """Cookies are for the control routes: inference takes keys."""
    services.api_key_create(name="first", scopes=["inference"], actor="test")
    answer = browsers["superuser"].get("/v1/models", headers={"Host": "localhost"})
    assert answer.status_code == 401


def test_a_page_token_opens_inference_alone(live: Wire, keys: dict[str, str]) -> None:
    """The playground's: as its user, and never to load a model."""
    token = page_token("ann")
    assert [ask(live, route, token) for route in INFERENCE] == len(INFERENCE) * [(200, "")]
    assert {ask(live, route, token)[0] for route in CONTROL} == {403}


def test_the_tenant_is_the_key(
    live: Wire, serving: FakeServing, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: what keeps one key's cached prefixes from another's."""
    seen = []
    (replica,) = serving.runtime.replicas()
    submit = replica.worker.submit
    monkeypatch.setattr(replica.worker, "submit", lambda r: seen.append(r.tenant) or submit(r))
    for name in ("inference", "both", "inference"):
        ask(live, INFERENCE[4], keys[name])
    assert seen[0] == seen[2]
    assert len(set(seen)) == 2
    assert "" not in seen


def test_the_door_stays_shut_when_the_last_key_is_revoked(live: Wire) -> None:
    """At once in this process, and not open again."""
    services.api_key_create(name="only", scopes=["inference"], actor="test")
    assert ask(live, INFERENCE[0]) == (401, "missing_api_key")
    services.api_key_revoke(wanted="only", actor="test")
    assert ask(live, INFERENCE[0]) == (401, "missing_api_key")
    assert ask(live, INFERENCE[0], "none") == (401, "invalid_api_key")


def test_a_change_by_another_process_shows_within_a_second(
    live: Wire, keys: dict[str, str]
) -> None:
    assert ask(live, INFERENCE[0], keys["inference"]) == (200, "")
    ApiKey.objects.filter(name="inference").update(revoked_at=timezone.now())
    wait_until(lambda: ask(live, INFERENCE[0], keys["inference"])[0] == 401, within_s=1.5)


def test_asking_who_it_is_costs_no_query_and_no_thread(
    live: Wire, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the memory of the keys is a second old, that is; also for keys that are wrong."""
    reads = []
    read = auth._read_key_policy
    monkeypatch.setattr(auth, "_read_key_policy", lambda: reads.append(1) or read())
    started_s = time.monotonic()
    for token in [keys["inference"], "wrong", keys["revoked"]] * 10:
        ask(live, INFERENCE[0], token)
    assert 1 <= len(reads) <= 1 + (time.monotonic() - started_s)
