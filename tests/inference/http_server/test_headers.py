"""Request lines and headers that are too many, too long, too slow or ill formed; idle connections."""

from __future__ import annotations

import socket
import time

import pytest

from tests.inference.api.wire import read_answer, read_until, request_bytes
from tests.inference.http_server.applications import echo_target
from tests.inference.http_server.conftest import Serve

GOOD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ended(connection: socket.socket) -> bytes:
    """What still came before the server closed."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def headers(count: int) -> bytes:
    return b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % i for i in range(count)) + b"\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        headers(600),
        headers(129),
        b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n z\r\n" * 4000,
        b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"G" * 20_000,
    ],
    ids=["600", "129", "20 kB", "20 kB without end", "folded", "20 kB path", "20 kB of nothing"],
)
def test_too_much_of_a_head_is_431(serve: Serve, raw: bytes) -> None:
    with serve().connect() as connection:
        connection.sendall(raw)
        answer = read_answer(connection)
    assert answer.status == 431
    assert answer.error["code"] == "headers_too_large"


def test_a_large_head_within_the_limits_is_taken(serve: Serve) -> None:
    raw = headers(120).replace(
        b"\r\n\r\n", b"\r\nConnection: close\r\nX: %b\r\n\r\n" % (b"y" * 14_000)
    )
    with serve().connect() as connection:
        connection.sendall(raw)
        assert read_answer(connection).status == 200


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        (b"/v1/models?a=b", b"named /v1/models?a=b"),
        (b"http://asked:80/v1/models?a=http://b/", b"asked:80 /v1/models?a=http://b/"),
        (b"HTTP://asked", b"asked /?"),
    ],
)
def test_a_target_may_name_the_server(serve: Serve, target: bytes, seen: bytes) -> None:
    with serve(echo_target).connect() as connection:
        connection.sendall(b"GET %b HTTP/1.1\r\nHost: named\r\nConnection: close\r\n\r\n" % target)
        assert read_answer(connection).body == seen


def test_who_speaks_tls_is_refused_at_once(serve: Serve) -> None:
    """An https:// in place of http:// is told from a request that is slow to come."""
    with serve().connect() as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200))
        connection.settimeout(5)
        answer = read_answer(connection)
    assert answer.status == 400
    assert "http://" in answer.error["message"]


@pytest.mark.parametrize(
    "raw",
    [b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
     b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/1.1\r\nX y: z\r\n\r\n",
     b"GET / HTTP/1.1\r\nX : z\r\n\r\n", b"GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n",
     b"GET / HTTP/1.1\r\nX: a\x0bb\r\n\r\n", b"GET / HTTP/1.1\r\n: z\r\n\r\n",
     b"GET /\xff HTTP/1.1\r\n\r\n", b"GET /?\xff HTTP/1.1\r\n\r\n"],
)  # fmt: skip
def test_a_malformed_head_is_400(serve: Serve, raw: bytes) -> None:
    with serve().connect() as connection:
        connection.sendall(raw.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = read_answer(connection)
    assert answer.status == 400
    assert answer.error["code"] == "malformed_request"


def test_a_head_that_comes_slowly_is_408_at_the_deadline(serve: Serve) -> None:
    """A byte now and then does not put it off."""
    server = serve(header_deadline_s=0.5)
    connections = [server.connect() for _ in range(50)]
    started_s = time.monotonic()
    for byte in (b"G", b"E", b"T", b" "):
        for connection in connections:
            connection.sendall(byte)
        time.sleep(0.05)
    with server.connect() as other:
        other.sendall(request_bytes("GET", "/"))
        assert read_answer(other).status == 200
    for connection in connections:
        with connection:
            answer = read_answer(connection)
        assert answer.status == 408
        assert answer.error["message"] == "The request's headers did not arrive within 0.5 s."
    assert 0.4 <= time.monotonic() - started_s < 3


def test_a_connection_that_says_nothing_is_closed(serve: Serve) -> None:
    with serve(header_deadline_s=0.2).connect() as connection:
        assert ended(connection) == b""


def test_a_connection_is_kept_between_requests_for_a_while(serve: Serve) -> None:
    with serve(header_deadline_s=0.2, idle_s=0.6).connect() as connection:
        for _ in range(2):
            connection.sendall(GOOD)
            assert read_until(connection, b"\r\n\r\n0").startswith(b"HTTP/1.1 200")
            time.sleep(0.3)
        started_s = time.monotonic()
        assert ended(connection) == b""
        assert time.monotonic() - started_s < 2


def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    """And one that must be refused does not spoil those before it."""
    with serve().connect() as connection:
        bodies = [b"a" * i for i in range(5)]
        good = [request_bytes("POST", "/", b, Connection="keep-alive") for b in bodies]
        connection.sendall(b"".join(good) + headers(600) + b"".join(good))
        received = ended(connection)
    assert [received.count(f"\r\n\r\n{i}HTTP/1.1 ".encode()) for i in range(5)] == [1] * 5
    assert received.count(b"HTTP/1.1 200") == 5
    assert received.count(b"HTTP/1.1 431") == 1


@pytest.mark.parametrize("leave_after", [1, 20, 60])
def test_a_client_that_leaves_within_its_request_leaves_nothing(
    serve: Serve, leave_after: int
) -> None:
    server = serve()
    raw = request_bytes("POST", "/", b"x" * 10)
    for _ in range(20):
        with server.connect() as connection:
            connection.sendall(raw[:leave_after])
    with server.connect() as connection:
        connection.sendall(raw)
        assert read_answer(connection).body == b"10"


def test_an_upgrade_is_not_made(serve: Serve) -> None:
    """No WebSockets here: the request is answered as what it is otherwise."""
    upgrade = {"Upgrade": "websocket", "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    with serve().connect() as connection:
        connection.sendall(request_bytes("GET", "/", Sec_WebSocket_Version="13", **upgrade))
        answer = read_answer(connection)
    assert (answer.status, answer.body) == (200, b"0")
