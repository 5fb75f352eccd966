"""Every field of every route's body with every kind of value: never a 5xx, and chats go on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import msgspec
import pytest

from inference.api import auth
from inference.api.control_views import LoadBody, UnloadBody
from inference.api.job_views import PullBody
from inference.api.schemas import ChatRequest, CompletionRequest
from inference.api.urls import urlpatterns
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire

pytestmark = pytest.mark.django_db(transaction=True)

MISSING = object()
NUMBERS = (
    0, -1, 1, 2, 1.5, 0.1, 64, 65, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64,
    10**300, 1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
VALUES = (
    MISSING, None, True, False, *NUMBERS, "", " ", "x", "1", "NaN", "\0", "é" * 300, "x" * 10_000,
    "../../etc/passwd", "<script>", "a\r\nb", "\x1b[31m", "\u202eabc", [], [None], [[]], [[[]]], {},
    {"": None}, {"a": {"b": {}}}, [1] * 1000, ["x"] * 1000, [{}] * 200, {str(i): 1 for i in range(2000)},
)  # fmt: skip
RAW = (
    b"",
    b"null",
    b"[]",
    b'"x"',
    b"1",
    b"{",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b"[" * 5000,
    b"{}" * 2,
)
USER = {"role": "user", "content": "Hi"}
# A body that is fine, the form it is read into, and fields that are refused by name or ignored.
ROUTES = {
    "/v1/chat/completions": ({"messages": [USER], "max_tokens": 2}, ChatRequest),
    "/v1/completions": ({"prompt": "Hi", "max_tokens": 2}, CompletionRequest),
    "/admin/models/load": ({"name": "zz", "path": "nothing.gguf"}, LoadBody),
    "/admin/models/unload": ({"name": "nothing"}, UnloadBody),
    "/admin/models/pull": ({"source": "ftp:nothing"}, PullBody),
}
FURTHER = (
    "n",
    "best_of",
    "tools",
    "tool_choice",
    "response_format",
    "suffix",
    "user",
    "json_schema",
)
WITHOUT_BODY = {"/admin/jobs/<str:job_id>/cancel"}


def rows(route: str) -> Iterator[tuple[str, bytes]]:
    good, form = ROUTES[route]
    further = FURTHER if route.startswith("/v1/") else ()
    for field in (*(each.name for each in msgspec.structs.fields(form)), *further):
        for value in VALUES:
            body = {name: given for name, given in good.items() if name != field}
            if value is not MISSING:
                body[field] = value
            yield f"{field}={str(value)[:30]!r}", json.dumps(body).encode()
    for raw in RAW:
        yield repr(raw[:20]), raw


@pytest.fixture
def live(wire: Wire, serving: FakeServing, monkeypatch: pytest.MonkeyPatch) -> Wire:
    """For a caller who may do everything."""

    async def anybody(*_args: object) -> auth.Caller:
        return auth.Caller(tenant="1", actor="key ops", scopes=frozenset({"admin"}))

    for module in ("control_views", "job_views"):
        monkeypatch.setattr(f"inference.api.{module}.control_caller", anybody)
    serving.say("yes")
    return wire


def test_every_route_that_takes_a_body_is_listed() -> None:
    import inspect

    takers = set()
    for each in urlpatterns:
        path, code = f"/{each.pattern}", inspect.unwrap(each.callback)
        if "read_body" in inspect.getsource(code):
            takers.add(path)
    assert {path for path in takers if path.startswith(("/v1/", "/admin/"))} == set(ROUTES)


@pytest.mark.parametrize("route", ROUTES)
def test_no_value_is_a_failure_of_the_server(live: Wire, serving: FakeServing, route: str) -> None:
    """Errors have the API's form, and chats in between are answered at once."""
    num_rows = 0
    for what, raw in rows(route):
        answer = live.post(route, raw, X_Api_Key="ops")
        assert answer.status < 500 or answer.status == 507, (what, answer.body[:300])
        if answer.status >= 400:
            assert len(answer.error["message"]) < 1000, what
            assert "Traceback" not in answer.error["message"], what
        num_rows += 1
        if num_rows % 10 == 0:
            begun_s = time.monotonic()
            assert live.chat(max_tokens=2).status == 200, what
            assert time.monotonic() - begun_s < 2, what
    assert num_rows > 50
    assert serving.num_busy() == 0
