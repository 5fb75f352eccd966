"""Bodies, headers, paths and methods nobody should send: refused in OpenAI's form, and the server lives."""

from __future__ import annotations

import json
import socket

import pytest
from django.conf import settings

from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_answer

CHAT = "/v1/chat/completions"
GOOD = b'{"messages":[{"role":"user","content":"Hi"}]}'

BAD_BODIES = {
    "empty": b"",
    "white space": b"  \n",
    "null": b"null",
    "array": b"[]",
    "string": b'"x"',
    "number": b"1",
    "truncated": GOOD[:-1],
    "trailing": GOOD + b"x",
    "two objects": GOOD + GOOD,
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "utf-16": GOOD.decode().encode("utf-16"),
    "utf-32": GOOD.decode().encode("utf-32"),
    "latin-1": b'{"messages":[{"role":"user","content":"\xe9"}]}',
    "latin-1 in an unknown field": GOOD[:-1] + b',"x":"\xe9"}',
    "overlong utf-8": GOOD[:-1] + b',"x":"\xc0\xaf"}',
    "lone surrogate": b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    "lone surrogate in an unknown field": GOOD[:-1] + b',"x":"\\udfff"}',
    "raw control character": b'{"messages":[{"role":"user","content":"\x01"}]}',
    "NaN": GOOD[:-1] + b',"temperature":NaN}',
    "Infinity": GOOD[:-1] + b',"temperature":Infinity}',
    "1e999": GOOD[:-1] + b',"temperature":1e999}',
    "NaN in an unknown field": GOOD[:-1] + b',"x":NaN}',
    "5,000 digits": GOOD[:-1] + b',"seed":' + b"9" * 5000 + b"}",
    "5,000 digits in an unknown field": GOOD[:-1] + b',"x":' + b"9" * 5000 + b"}",
    "hexadecimal": GOOD[:-1] + b',"seed":0x10}',
    "leading zero": GOOD[:-1] + b',"seed":01}',
    "duplicate key": GOOD[:-1] + b',"seed":1,"seed":1}',
    "duplicate messages": GOOD[:-1] + b',"messages":[]}',
    "duplicate key inside": b'{"messages":[{"role":"user","role":"system","content":"Hi"}]}',
    "duplicate key in an unknown field": GOOD[:-1] + b',"x":{"a":1,"a":2}}',
    "one of 300,000 keys twice": b'{"messages":[],'
    + b",".join(b'"%d":0' % i for i in range(300_000))
    + b',"299999":0}',
    "escaped duplicate": GOOD[:-1] + b',"seed":1,"see\\u0064":1}',
    "depth 10,000": GOOD[:-1] + b',"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "depth 1,000,000": GOOD[:-1] + b',"x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
    "deep objects": GOOD[:-1] + b',"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "unclosed depth": b"[" * 1_000_000,
    "form": b"messages=Hi",
    "gzip": b"\x1f\x8b\x08\x00",
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_body_is_refused(wire: Wire, serving: FakeServing, name: str) -> None:
    answer = wire.post(CHAT, BAD_BODIES[name])
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert len(answer.body) < 500
    assert serving.num_accepted() == 0
    assert wire.get("/health").status == 200


GOOD_BODIES = {
    "plain": GOOD,
    "white space around": b" \r\n\t" + GOOD + b"\n",
    "NUL": b'{"messages":[{"role":"user","content":"a\\u0000b"}]}',
    "surrogate pair": b'{"messages":[{"role":"user","content":"\\ud83d\\ude42"}]}',
    "depth 100": GOOD[:-1] + b',"x":' + b"[" * 100 + b"]" * 100 + b"}",
    "same key in two objects": GOOD[:-1] + b',"x":[{"a":1},{"a":1}]}',
}


@pytest.mark.parametrize("name", GOOD_BODIES)
def test_an_unusual_body_is_taken(wire: Wire, serving: FakeServing, name: str) -> None:
    serving.say("yes")
    assert wire.post(CHAT, GOOD_BODIES[name]).status == 200


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/x-www-form-urlencoded", "é"]
)
def test_the_content_type_does_not_matter(
    wire: Wire, serving: FakeServing, content_type: str
) -> None:
    serving.say("yes")
    assert wire.post(CHAT, GOOD, Content_Type=content_type).status == 200


def test_a_body_over_the_limit_is_413(
    wire: Wire, serving: FakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "DATA_UPLOAD_MAX_MEMORY_SIZE", 2000)
    padded = GOOD[:-1] + b',"x":"' + b"y" * 2000 + b'"}'
    answer = wire.post(CHAT, padded)
    assert answer.status == 413
    assert answer.error["code"] == "body_too_large"
    assert "2000 bytes" in answer.error["message"]
    assert serving.num_accepted() == 0


def test_a_chunked_body_over_the_limit_is_413(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for bodies that do not tell their length."""
    monkeypatch.setattr(settings, "DATA_UPLOAD_MAX_MEMORY_SIZE", 2000)
    with wire.server.connect() as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 4096 + b"\r\n0\r\n\r\n"
        )
        answer = read_answer(connection)
    assert answer.status == 413
    assert answer.error["code"] == "body_too_large"


def test_a_large_body_within_the_limit_is_read(wire: Wire, serving: FakeServing) -> None:
    """8 MiB by default; a long prompt that does not fit is told how long it is."""
    answer = wire.chat("word " * 100_000)
    assert answer.status == 400
    assert answer.error["code"] == "context_length_exceeded"
    assert "512 tokens" in answer.error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("GET", "/v1/completions", "POST"),
        ("PUT", CHAT, "POST"),
        ("DELETE", "/v1/models/tiny", "GET, HEAD"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
        ("GET", "/admin/models/load", "POST"),
        ("POST", "/admin/dies", "GET, HEAD"),
        ("BREW", CHAT, "POST"),
    ],
)
def test_a_wrong_method_is_405(wire: Wire, method: str, path: str, allowed: str) -> None:
    answer = wire.ask(method, path, b"{}", X_Api_Key="unused")
    assert answer.status == 405
    assert answer.headers["allow"] == allowed
    assert answer.error["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/nope", "/v1/embeddings", "/v1/chat/completions/", "/v1/v1/models",
     "/v1/../etc/passwd", "/v1/%2e%2e/%2e%2e/etc/passwd", "/v1/%00", "/v1/" + "x" * 5000],
)  # fmt: skip
def test_an_unknown_path_is_404(wire: Wire, path: str) -> None:
    for method in ("GET", "POST"):
        answer = wire.ask(method, path, b"{}" if method == "POST" else None)
        assert answer.status == 404
        assert answer.error["code"] == "unknown_url"
        assert len(answer.body) < 500


@pytest.mark.parametrize(
    "path", ["/api/v1/chat/completions", "/api/tags", "/healthz", "/v11/models", "/favicon.ico"]
)
def test_so_is_one_outside_of_v1(wire: Wire, path: str) -> None:
    """Whose client has a wrong base URL, and reads no page for browsers."""
    for method in ("GET", "POST"):
        answer = wire.ask(method, path, b"{}" if method == "POST" else None)
        assert answer.status == 404
        assert answer.error["code"] == "unknown_url"
        assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("path", ["/admin", "/admin/registry/replica"])
def test_the_admin_site_is_found_without_the_slash(wire: Wire, path: str) -> None:
    answer = wire.get(path)
    assert answer.status in (301, 302)
    assert answer.headers["location"].startswith("/admin/")


def test_a_wrong_host_is_400(wire: Wire, serving: FakeServing) -> None:
    """So that a page of another site cannot reach this server under a name of its own."""
    answer = wire.post(CHAT, GOOD, Host="evil.example")
    assert answer.status == 400
    assert answer.error["code"] == "bad_host"
    assert serving.num_accepted() == 0


def test_an_unexpected_error_tells_nothing(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise ZeroDivisionError("secret /path/to/it")

    monkeypatch.setattr("inference.api.generation_views.lease_replica", fail)
    answer = wire.post(CHAT, GOOD)
    assert answer.status == 500
    assert answer.error["type"] == "server_error"
    assert answer.error["code"] == "internal_error"
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert b"/path" not in answer.body


def test_pipelined_requests_are_answered_in_order(wire: Wire, serving: FakeServing) -> None:
    serving.say("yes")
    head = b"Host: localhost\r\nContent-Length: %d\r\n" % len(GOOD)
    with wire.server.connect() as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\n"
            + head
            + b"\r\n"
            + GOOD
            + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        received = _all(connection)
    assert received.count(b"HTTP/1.1 200") == 2
    assert received.index(b"chat.completion") < received.index(b'{"status":"ok"}')


def _all(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def test_answers_tell_their_length(wire: Wire, serving: FakeServing) -> None:
    serving.say("yes")
    for answer in (wire.chat(), wire.get("/v1/models"), wire.get("/v1/nope")):
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert json.loads(answer.body)
