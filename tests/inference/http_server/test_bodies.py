"""Bodies that are too large, too slow or ill framed: refused while they arrive, in the API's form."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from inference.http_server.limits import Limits
from tests.fakes.live_server import LiveServer
from tests.inference.api.wire import Answer, read_answer, request_bytes, wait_until
from tests.inference.http_server.conftest import Serve

MIB = 1 << 20
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def length_head(length: object, *more: str) -> bytes:
    lines = ["POST / HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *more, "", ""]
    return "\r\n".join(lines).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def refused(connection: socket.socket) -> Answer:
    """The answer, after which the server has closed its side."""
    answer = read_answer(connection)
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-request-id"].startswith("req_")
    assert int(answer.headers["content-length"]) == len(answer.body)
    return answer


def is_alive(server: LiveServer) -> bool:
    with server.connect() as connection:
        connection.sendall(request_bytes("POST", "/", b"four"))
        return read_answer(connection).body == b"4"


def test_a_length_over_the_limit_is_refused_before_the_body(serve: Serve) -> None:
    server = serve()
    with server.connect() as connection:
        connection.sendall(length_head(9 * MIB))
        answer = refused(connection)
    assert answer.status == 413
    assert answer.error["code"] == "body_too_large"
    assert str(8 * MIB) in answer.error["message"]
    assert is_alive(server)


def test_a_client_that_goes_on_sending_reads_the_refusal(serve: Serve) -> None:
    """9 MiB sent slowly: the answer is there long before the end, and sending on breaks nothing."""
    server = serve()
    with server.connect() as connection:
        connection.sendall(length_head(9 * MIB))
        for _ in range(5):
            connection.sendall(b"x" * 65_536)
            time.sleep(0.02)
        assert refused(connection).status == 413


def test_a_client_that_waits_for_100_is_refused_instead(serve: Serve) -> None:
    with serve().connect() as connection:
        connection.sendall(length_head(9 * MIB, "Expect: 100-continue"))
        assert refused(connection).status == 413


def test_a_client_that_waits_for_100_gets_it(serve: Serve) -> None:
    with serve().connect() as connection:
        connection.sendall(length_head(3, "Expect: 100-continue", "Connection: close"))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        assert read_answer(connection).body == b"3"


@pytest.mark.parametrize("piece", [1000, 60_000])
def test_a_chunked_body_is_counted_as_it_comes(serve: Serve, piece: int) -> None:
    """The end never comes, and need not."""
    server = serve(max_body_bytes=100_000)
    with server.connect() as connection:
        connection.sendall(CHUNKED)
        for _ in range(100_000 // piece + 1):
            connection.sendall(chunk(b"x" * piece))
        answer = refused(connection)
    assert answer.status == 413
    assert is_alive(server)


@pytest.mark.parametrize("length", [100_000, 40_000, 0])
def test_a_body_up_to_the_limit_is_taken(serve: Serve, length: int) -> None:
    """Also one that waited in a file meanwhile."""
    server = serve(max_body_bytes=100_000)
    with server.connect() as connection:
        connection.sendall(request_bytes("POST", "/", b"x" * length))
        assert read_answer(connection).body == str(length).encode()
    with server.connect() as connection:
        framed = b"".join(chunk(b"x" * 1000) for _ in range(length // 1000))
        head = CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
        connection.sendall(head + framed + b"0\r\n\r\n")
        assert read_answer(connection).body == str(length).encode()


def test_all_bodies_together_are_bounded(serve: Serve) -> None:
    """And what is given back can be had again, whether it was answered, refused or left."""
    server = serve(max_bodies_bytes=250_000, linger_s=0.05)
    for _ in range(3):
        with server.connect() as first, server.connect() as second, server.connect() as third:
            for connection in (first, second):
                connection.sendall(length_head(100_001) + b"x" * 100_000)
            third.sendall(length_head(100_001) + b"x" * 100_000)
            answer = refused(third)
            assert answer.status == 503
            assert answer.error["code"] == "server_busy"
            first.sendall(b"x")
            first.recv(1000)
        wait_until(lambda: is_alive(server))
    with server.connect() as connection:
        connection.sendall(request_bytes("POST", "/", b"x" * 240_000))
        assert read_answer(connection).body == b"240000"


def test_too_many_chunks_are_refused(serve: Serve) -> None:
    """A million chunks of one byte would keep everybody waiting while they are unpacked."""
    server = serve(max_body_pieces=1000)
    with server.connect() as connection:
        connection.sendall(CHUNKED + chunk(b"x") * 1001)
        assert refused(connection).status == 400
    assert is_alive(server)


def test_a_body_that_does_not_arrive_in_time_is_408(serve: Serve) -> None:
    server = serve(body_deadline_s=0.3)
    for head in (length_head(100), CHUNKED + b"64\r\n"):
        with server.connect() as connection:
            connection.sendall(head)
            started_s = time.monotonic()
            for _ in range(3):
                connection.sendall(b"x")
                time.sleep(0.05)
            answer = refused(connection)
            assert 0.25 <= time.monotonic() - started_s < 2
        assert answer.status == 408
        assert answer.error["code"] == "request_timeout"
        assert "body" in answer.error["message"]


def malformed() -> Iterator[bytes]:
    both = "Transfer-Encoding: chunked"
    yield length_head(4, both) + b"0\r\n\r\n"
    yield length_head(4, both.lower()) + b"0\r\n\r\n"
    yield CHUNKED[:-2] + b"Content-Length: 4\r\n\r\n0\r\n\r\n"
    yield length_head(4, "Content-Length: 4") + b"abcd"
    yield length_head(4, "Content-Length: 5") + b"abcd"
    yield CHUNKED[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    for coding in (b"gzip, chunked", b"chunked, identity", b"xchunked", b"chunked;q=1"):
        yield CHUNKED.replace(b"chunked", coding) + b"0\r\n\r\n"
    for length in ("-1", "+4", "4,4", "0x4", "4.0", "", "４"):
        yield length_head(length) + b"abcd"
    for size in (b"-1", b"0x4", b"4 ", b"g", b"", b"4" * 2000, b"ffffffffffffffffffff g"):
        yield CHUNKED + size + b"\r\nabcd\r\n0\r\n\r\n"
    yield CHUNKED + b"4\r\nabcde\r\n0\r\n\r\n"
    yield CHUNKED + b"0\r\n" + b"x: y\r\n" * 20_000


@pytest.mark.parametrize("number", range(len(list(malformed()))))
def test_ambiguous_framing_is_refused(serve: Serve, number: int) -> None:
    """Whatever another server in front might read differently ends the connection, unanswered further."""
    server = serve()
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(list(malformed())[number] + smuggled)
        answer = refused(connection)
    assert answer.status == 400
    assert answer.error["code"] == "malformed_request"
    assert is_alive(server)


@pytest.mark.parametrize("digits", [19, 5000])
def test_an_absurd_length_is_too_large(serve: Serve, digits: int) -> None:
    with serve().connect() as connection:
        connection.sendall(length_head("9" * digits))
        assert refused(connection).status == 413


def test_the_defaults_are_the_documented_ones() -> None:
    limits = Limits()
    assert (limits.max_body_bytes, limits.max_connections) == (8 * MIB, 2048)
    assert (limits.header_deadline_s, limits.body_deadline_s) == (15, 60)
