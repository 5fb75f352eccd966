"""The log's one line of a refused request: what was refused, the error's code, and whose request it was."""

from __future__ import annotations

import logging

import pytest

from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, wait_until

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
CHAT_PATH = "/v1/chat/completions"


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    found = [r for r in caplog.records if r.name == "django.request" and r.levelno == level]
    return [record.getMessage() for record in found]


@pytest.mark.parametrize(
    ("method", "path", "body", "line"),
    [
        ("POST", CHAT_PATH, {}, f"Bad Request: {CHAT_PATH} (invalid_value, request mine)"),
        ("GET", "/v1/nothing", None, "Not Found: /v1/nothing (unknown_url, request mine)"),
        ("GET", CHAT_PATH, None, f"Method Not Allowed: {CHAT_PATH} (method_not_allowed, request mine)"),
        ("GET", "/admin/dies", None, "Unauthorized: /admin/dies (missing_api_key, request mine)"),
    ],
)  # fmt: skip
def test_it_has_the_code(
    wire: Wire,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    body: object,
    line: str,
) -> None:
    assert wire.ask(method, path, body, X_Request_Id="mine").status >= 400
    assert lines(caplog) == [line]


def test_a_full_queue(wire: Wire, serving: FakeServing, caplog: pytest.LogCaptureFixture) -> None:
    gate = serving.before_step = Gate()
    serving.add("full", num_slots=1, queue_depth=0)
    held = wire.send("POST", CHAT_PATH, CHAT | {"model": "full"})
    gate.wait_for_step()
    assert wire.post(CHAT_PATH, CHAT | {"model": "full"}, X_Request_Id="late").status == 429
    assert lines(caplog) == [f"Too Many Requests: {CHAT_PATH} (server_busy, request late)"]
    held.close()
    gate.open()
    wait_until(lambda: serving.num_busy() == 0)


def test_a_failure_is_an_error(
    wire: Wire, serving: FakeServing, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_step: int) -> None:
        raise ZeroDivisionError

    serving.before_step = fail
    assert wire.post(CHAT_PATH, CHAT, X_Request_Id="mine").status == 500
    assert lines(caplog, logging.ERROR) == [
        f"Internal Server Error: {CHAT_PATH} (generation_failed, request mine)"
    ]
    assert lines(caplog) == []
