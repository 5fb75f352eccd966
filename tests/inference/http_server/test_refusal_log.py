"""The log of requests that no route has seen: one line each, and a count once they come in floods."""

from __future__ import annotations

import logging
import re
from contextlib import ExitStack

import pytest
from twisted.internet.task import Clock

from inference.http_server.refusal_log import LINES_PER_PERIOD, PERIOD_S, RefusalLog
from tests.inference.api.wire import read_answer, read_until, wait_until
from tests.inference.http_server.conftest import Serve

GOOD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r for r in caplog.records if r.name == "inference.http_server.refusal_log"]
    assert {record.levelno for record in found} <= {logging.WARNING}
    return [record.getMessage() for record in found]


@pytest.mark.parametrize(
    ("raw", "limits", "status", "code", "why"),
    [
        (HEAD + b"101\r\n\r\n", {"max_body_bytes": 100}, 413, "body_too_large", "100 bytes"),
        (HEAD + b"9\r\n\r\n", {"body_deadline_s": 0.1}, 408, "request_timeout", "body did not"),
        (b"GET /", {"header_deadline_s": 0.1}, 408, "request_timeout", "headers did not"),
        (b"GET\r\n\r\n", {}, 400, "malformed_request", "RFC 9112"),
        (GOOD.replace(b"Host", b"X: a\x0bb\r\nHost"), {}, 400, "malformed_request", "header value"),
        (b"G" * 20_000, {}, 431, "headers_too_large", "16384 bytes"),
        (HEAD + b"90\r\n\r\n" + b"x" * 60, {"max_bodies_bytes": 50}, 503, "server_busy", "fill"),
    ],
)  # fmt: skip
def test_a_refused_request_has_a_line(
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
    raw: bytes,
    limits: dict[str, float],
    status: int,
    code: str,
    why: str,
) -> None:
    """Its status, who sent it, the error's code, the id that the client was told, and the reason."""
    with serve(**limits).connect() as connection:
        connection.sendall(raw)
        read = read_until(connection, b"}}").decode()
    (line,) = lines(caplog)
    request_id = re.search(r"x-request-id: (\S+)", read, re.I)
    assert request_id
    assert line.startswith(f"{status} ")
    assert f": 127.0.0.1 ({code}, request {request_id[1]}): " in line
    assert why in line


def test_a_connection_over_the_cap_has_a_line(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """Told so or not; what is closed without a word is not told apart by the client, but here."""
    server = serve(max_connections=1, max_refused_connections=1)
    with ExitStack() as closing:
        first, told = [closing.enter_context(server.connect()) for _ in range(2)]
        read_until(told, b"too_many_connections")
        with server.connect() as silent:
            assert silent.recv(100) == b""
        wait_until(lambda: len(lines(caplog)) == 2)
        first.sendall(GOOD)
        read_until(first, b"\r\n\r\n0")
    assert lines(caplog)[0].startswith("503 Service Unavailable: 127.0.0.1 (too_many_connections,")
    assert lines(caplog)[1].startswith("Closed without an answer: 127.0.0.1 (")


def test_an_answered_request_has_none(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with serve().connect() as connection:
        connection.sendall(GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_answer(connection).status == 200
    assert lines(caplog) == []


def test_a_flood_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A kind has so many lines a period, then one for the rest, and hides no other kind."""
    clock = Clock()
    log = RefusalLog(clock)
    for number in range(LINES_PER_PERIOD + 7):
        log.record("malformed_request", f"line {number}")
    log.record("body_too_large", "another")
    told = [f"line {number}" for number in range(LINES_PER_PERIOD)]
    assert lines(caplog) == [*told, "another"]
    clock.advance(PERIOD_S)
    assert lines(caplog)[len(told) + 1 :] == ["7 more refused within 60 s (malformed_request)"]
    log.record("malformed_request", "again")
    clock.advance(PERIOD_S)
    assert lines(caplog)[-1] == "again"
    assert clock.getDelayedCalls() == []
