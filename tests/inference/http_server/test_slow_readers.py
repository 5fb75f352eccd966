"""Clients that do not read: what is kept for them is bounded, and they are noticed when they leave."""

from __future__ import annotations

import resource
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inference.http_server.limits import Limits
from tests.fakes.live_server import LiveServer, listening
from tests.inference.api.wire import read_answer, request_bytes, wait_until
from tests.inference.http_server.applications import PIECE, Endless, Greedy
from tests.inference.http_server.conftest import Serve

RECEIVE_BYTES = 4096


def deaf(server: LiveServer) -> socket.socket:
    """A client that asks and never reads."""
    connection = server.connect(receive_bytes=RECEIVE_BYTES)
    connection.sendall(request_bytes("GET", "/endless"))
    return connection


def resident_bytes() -> int:
    """Of this process, servers and all."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def is_still(app: Endless) -> bool:
    before = app.num_sent
    time.sleep(0.1)
    return app.num_sent == before


def buffered_bytes(server: Any) -> list[int]:
    """What the process keeps for each connection."""
    transports = [each.transport for each in server.http_factory.connections]
    return [len(t.dataBuffer) - t.offset + t._tempDataLen for t in transports]


def test_an_application_waits_for_a_client_that_does_not_read() -> None:
    """At most 256 KiB are kept; the rest is never made."""
    app = Endless()
    server = listening(app, Limits())
    with deaf(LiveServer(*server.listening_addresses[0])):
        wait_until(lambda: app.num_sent > 0 and is_still(app))
        (kept,) = buffered_bytes(server)
        assert 0 < kept <= 256 << 10


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_client_that_does_not_read_is_noticed_when_it_leaves(
    serve: Serve, is_reset: bool
) -> None:
    app = Endless()
    connection = deaf(serve(app))
    wait_until(lambda: app.num_sent > 0 and is_still(app))
    assert app.num_running == 1
    if is_reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert wait_until(lambda: app.num_running == 0) < 0.25


def test_an_application_goes_on_when_its_client_reads_again(serve: Serve) -> None:
    app = Endless()
    with deaf(serve(app)) as connection:
        wait_until(lambda: app.num_sent > 0 and is_still(app))
        wanted = app.num_sent * len(PIECE) * 2
        received = 0
        while received < wanted:
            received += len(connection.recv(1 << 20))
        assert app.num_sent * len(PIECE) > wanted / 2


def test_a_client_that_never_takes_its_answer_is_cut_off(serve: Serve) -> None:
    """Whether the answer is still being made, or is complete and only waits."""
    app = Endless()
    server = serve(app, stall_s=0.3)
    with deaf(server):
        wait_until(lambda: app.num_running == 1)
        assert wait_until(lambda: app.num_running == 0) < 2


def test_others_are_answered_beside_many_that_do_not_read(serve: Serve) -> None:
    """200 of them cost a bounded amount of memory: nothing like what could be written to them."""
    app = Endless()
    server = serve(app)
    before = resident_bytes()
    connections = [deaf(server) for _ in range(200)]
    wait_until(lambda: app.num_running == 200 and is_still(app), within_s=20)
    started_s = time.monotonic()
    with server.connect() as other:
        other.sendall(request_bytes("POST", "/", b"abc"))
        assert read_answer(other).body == b"3"
    assert time.monotonic() - started_s < 0.5
    assert resident_bytes() - before < 200 * (256 << 10) + (32 << 20)
    for connection in connections:
        connection.close()
    wait_until(lambda: app.num_running == 0)


def test_others_are_answered_beside_one_that_is_read_as_fast_as_it_is_written(
    serve: Serve,
) -> None:
    """What is written at once never waits for anything; the application is made to."""
    app = Greedy()
    server = serve(app)
    with server.connect() as greedy:
        greedy.sendall(request_bytes("GET", "/endless"))
        with being_read(greedy):
            wait_until(lambda: app.num_sent > 100)
            started_s = time.monotonic()
            with server.connect() as other:
                other.sendall(request_bytes("POST", "/", b"abc"))
                assert read_answer(other).body == b"3"
            assert time.monotonic() - started_s < 2
    # A piece that had to wait for its client counts with the one before.
    assert 0 < app.most_at_once <= Limits().write_buffer_bytes + 2 * len(PIECE)
    wait_until(lambda: app.num_running == 0)


@contextmanager
def being_read(connection: socket.socket) -> Iterator[None]:
    """Read to the end of the block, by a process of its own: a thread would take turns with the server."""
    connection.setblocking(True)
    with subprocess.Popen(["cat"], stdin=connection, stdout=subprocess.DEVNULL) as reader:
        try:
            yield
            assert reader.poll() is None, "the stream ended or was reset"
        finally:
            reader.kill()


def test_idle_streams_cost_little(serve: Serve) -> None:
    app = Endless(pause_s=3600)
    server = serve(app)
    before = resident_bytes()
    connections = [server.connect() for _ in range(1000)]
    for connection in connections:
        connection.sendall(request_bytes("GET", "/endless"))
    wait_until(lambda: app.num_running == 1000, within_s=20)
    with server.connect() as other:
        other.sendall(request_bytes("POST", "/", b"abc"))
        assert read_answer(other).body == b"3"
    assert resident_bytes() - before < 64 << 20
    for connection in connections:
        connection.close()
    wait_until(lambda: app.num_running == 0)
