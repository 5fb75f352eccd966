"""The cap on connections: those that are open keep being served, new ones are told to come back."""

from __future__ import annotations

import resource
from contextlib import ExitStack

from inference.http_server.limits import connections_possible
from tests.inference.api.wire import read_answer, read_until, request_bytes, wait_until
from tests.inference.http_server.applications import Endless
from tests.inference.http_server.conftest import Serve

KEPT = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_over_the_cap_is_503_and_open_connections_go_on(serve: Serve) -> None:
    server = serve(max_connections=3)
    with ExitStack() as closing:
        kept = [closing.enter_context(server.connect()) for _ in range(3)]
        for connection in kept:
            connection.sendall(KEPT)
            read_until(connection, b"\r\n\r\n0")
        for _ in range(5):
            with server.connect() as refused:
                refused.sendall(KEPT)
                answer = read_answer(refused)
            assert answer.status == 503
            assert answer.error["code"] == "too_many_connections"
            assert answer.headers["retry-after"] == "5"
        for connection in kept:
            connection.sendall(KEPT)
            read_until(connection, b"\r\n\r\n0")
        kept[0].close()
        wait_until(lambda: _is_served(server))


def _is_served(server) -> bool:
    with server.connect() as connection:
        connection.sendall(request_bytes("GET", "/"))
        return read_answer(connection).status == 200


def test_a_running_stream_counts_until_it_ends(serve: Serve) -> None:
    app = Endless(pause_s=0.01)
    server = serve(app, max_connections=1)
    with server.connect() as stream:
        stream.sendall(request_bytes("GET", "/endless"))
        wait_until(lambda: app.num_running == 1)
        assert not _is_served(server)
    wait_until(lambda: app.num_running == 0)
    wait_until(lambda: _is_served(server))


def test_refused_connections_are_bounded_too(serve: Serve) -> None:
    """Beyond them a connection is closed without a word: telling everybody would be a way in."""
    server = serve(max_connections=1, max_refused_connections=2)
    with ExitStack() as closing:
        first, *told = [closing.enter_context(server.connect()) for _ in range(3)]
        for connection in told:
            read_until(connection, b"too_many_connections")
        with server.connect() as silent:
            assert silent.recv(100) == b""
        first.sendall(KEPT)
        read_until(first, b"\r\n\r\n0")


def test_the_cap_fits_the_files_the_process_may_open() -> None:
    """A server that cannot open its database any more helps nobody."""
    kept = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, kept[1]))
        assert connections_possible(100) == 100
        assert connections_possible(1000) == min(1000, (kept[1] - 256) // 2)
        assert connections_possible(10**9) == (kept[1] - 256) // 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, kept)
