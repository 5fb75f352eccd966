"""The small routes: root, health, models, preflight, request ids. None of them waits for a generation."""

from __future__ import annotations

import re
import time

import pytest

from inference.runtime_access import set_runtime
from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_answer


def test_root_answers_programs(wire: Wire) -> None:
    """S9."""
    for accept in ("*/*", "application/json", ""):
        answer = wire.get("/", Accept=accept)
        assert answer.status == 200
        assert answer.body == b'{"service":"pantheon","status":"ok"}'


def test_root_sends_browsers_to_the_dashboard(wire: Wire) -> None:
    """D17."""
    answer = wire.get("/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert answer.status == 302
    assert answer.headers["location"] == "/admin/"


def test_health(wire: Wire) -> None:
    assert wire.get("/health").json == {"status": "ok"}
    set_runtime(None)
    answer = wire.get("/health")
    assert answer.status == 503
    assert answer.error["code"] == "not_started"
    assert answer.headers["retry-after"] == "2"


def test_head_is_get_without_a_body(wire: Wire) -> None:
    answer = wire.ask("HEAD", "/v1/models")
    assert answer.status == 200
    assert answer.body == b""


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
def test_models_lists_names_once(wire: Wire, serving: FakeServing, path: str) -> None:
    """S4: replicas of a name are one entry; the context length is published."""
    serving.add("tiny")
    serving.add("org/other", context_len=256)
    reply = wire.get(path).json
    assert reply["object"] == "list"
    assert [entry["id"] for entry in reply["data"]] == ["org/other", "tiny"]
    for entry in reply["data"]:
        assert entry["object"] == "model"
        assert entry["owned_by"] == "pantheon"
        assert abs(entry["created"] - time.time()) < 60
        assert entry["max_model_len"] == entry["context_length"]
    assert reply["data"][0]["max_model_len"] == 256


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_one_model(wire: Wire, serving: FakeServing, prefix: str) -> None:
    """Ids may hold slashes."""
    serving.add("org/other")
    assert wire.get(f"{prefix}/models/org/other").json["id"] == "org/other"
    assert wire.get(f"{prefix}/models/org%2Fother").json["id"] == "org/other"
    answer = wire.get(f"{prefix}/models/org")
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"


def test_a_draining_model_is_not_listed(wire: Wire, serving: FakeServing) -> None:
    serving.runtime.drain("r0")
    assert wire.get("/v1/models").json["data"] == []


@pytest.mark.parametrize("path", ["/", "/v1/chat/completions", "/v1/nope", "/admin/", "/nope"])
def test_options_is_answered_anywhere(wire: Wire, path: str) -> None:
    """S3: 200 {} with the preflight's headers."""
    answer = wire.ask(
        "OPTIONS",
        path,
        Origin="http://app.example",
        Access_Control_Request_Headers="x-stainless-os",
    )
    assert answer.status == 200
    assert answer.body == b"{}"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "x-stainless-os"


def test_preflight_does_not_repeat_nonsense(wire: Wire) -> None:
    answer = wire.ask("OPTIONS", "/", Access_Control_Request_Headers="<script>")
    assert "<" not in answer.headers["access-control-allow-headers"]
    assert "Authorization" in answer.headers["access-control-allow-headers"]


def test_answers_may_be_read_by_other_origins_but_not_with_cookies(
    wire: Wire, serving: FakeServing
) -> None:
    serving.say("yes")
    for answer in (wire.chat(), wire.chat(stream=True), wire.get("/v1/nope"), wire.chat(n=2)):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


def test_the_admin_site_is_not_shared_with_other_origins(wire: Wire) -> None:
    assert "access-control-allow-origin" not in wire.get("/static/nope").headers


def test_every_answer_has_a_request_id(wire: Wire, serving: FakeServing) -> None:
    serving.say("yes")
    answers = [wire.chat(), wire.chat(stream=True), wire.get("/v1/nope"), wire.get("/static/nope")]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(re.fullmatch(r"req_[0-9a-f]{32}", each) for each in ids)
    assert len(set(ids)) == len(ids)


def test_a_clients_request_id_is_kept_when_sane(wire: Wire) -> None:
    assert wire.get("/health", X_Request_Id="a-b_c.1:2").headers["x-request-id"] == "a-b_c.1:2"
    for odd in ("x" * 129, "a b", "<b>", "é", ""):
        assert wire.get("/health", X_Request_Id=odd).headers["x-request-id"].startswith("req_")


def test_they_do_not_queue_behind_generation(wire: Wire, serving: FakeServing) -> None:
    """S10: with every slot and queue place taken and the model stuck in a step."""
    gate = Gate()
    serving.before_step = gate
    serving.say("yes")
    stuck = [
        wire.send("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})
        for _ in range(20)
    ]
    gate.wait_for_step()
    for path in ("/", "/health", "/v1/models", "/v1/models/tiny"):
        started_s = time.monotonic()
        assert wire.get(path).status == 200
        assert time.monotonic() - started_s < 1.0
    gate.open()
    assert all(read_answer(each).status == 200 for each in stuck)
    for each in stuck:
        each.close()
