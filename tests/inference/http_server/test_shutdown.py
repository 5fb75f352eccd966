"""The end of a server: what runs finishes, nothing new begins, and patience has its limit."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.live_server import LiveServer
from tests.inference.api.wire import read_answer, read_until, request_bytes, wait_until

ROOT = Path(__file__).parents[3]
Start = Callable[[float], tuple[subprocess.Popen, LiveServer]]


@pytest.fixture
def start() -> Iterator[Start]:
    made = []

    def run(shutdown_s: float) -> tuple[subprocess.Popen, LiveServer]:
        module = "tests.inference.http_server.serving_process"
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(shutdown_s)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        made.append(process)
        assert process.stdout is not None
        return process, LiveServer("127.0.0.1", int(process.stdout.readline()))

    yield run
    for process in made:
        process.kill()
        process.wait()
        process.stdout.close()


def stream(server: LiveServer, num_pieces: int) -> socket.socket:
    connection = server.connect()
    connection.sendall(request_bytes("GET", f"/stream?{num_pieces}", Connection="keep-alive"))
    read_until(connection, b"piece")
    return connection


def rest(connection: socket.socket) -> bytes:
    """What comes until the server closes; a reset ends it too."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def is_refused(server: LiveServer) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was still in the queue of the socket that just closed
        return False
    return False


def ended_well(process: subprocess.Popen) -> bool:
    return process.wait(timeout=10) == 0 and process.stdout.read() == "stopped\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_streams_finish_and_nothing_new_begins(start: Start, number: int) -> None:
    process, server = start(20)
    idle = server.connect()
    begun = server.connect()
    begun.sendall(b"GET / HTTP/1.1\r\n")
    streams = [server.connect() for _ in range(3)]
    for connection in streams:
        connection.sendall(request_bytes("GET", "/stream?30", Connection="keep-alive"))
    received = [read_until(connection, b"piece") for connection in streams]
    process.send_signal(number)
    assert idle.recv(100) == b""
    assert read_answer(begun).body == b"ShuttingDown"
    wait_until(lambda: is_refused(server))
    for connection in streams:
        # One more request on the same connection is not taken.
        connection.sendall(request_bytes("GET", "/stream?1"))
    for connection, begin in zip(streams, received, strict=True):
        assert (begin + rest(connection)).count(b"piece") == 30
    for connection in (idle, begun, *streams):
        connection.close()
    assert ended_well(process)


def test_the_last_answer_ends_the_server(start: Start) -> None:
    """Not the deadline."""
    process, server = start(20)
    with stream(server, 4) as connection:
        process.terminate()
        started_s = time.monotonic()
        assert rest(connection).endswith(b"0\r\n\r\n")
        assert ended_well(process)
        assert time.monotonic() - started_s < 3


def test_at_the_deadline_requests_are_ended_with_an_error(start: Start) -> None:
    process, server = start(0.3)
    with stream(server, 1000) as connection:
        started_s = time.monotonic()
        process.terminate()
        assert rest(connection).endswith(b"ended\n\r\n0\r\n\r\n")
        assert ended_well(process)
    assert 0.3 <= time.monotonic() - started_s < 2.5


def test_a_client_that_does_not_read_cannot_put_off_the_end(start: Start) -> None:
    process, server = start(0.2)
    with server.connect(receive_bytes=4096) as connection:
        connection.sendall(request_bytes("GET", "/stream?100000"))
        time.sleep(0.1)
        process.terminate()
        assert process.wait(timeout=8) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(start: Start, number: int) -> None:
    process, server = start(60)
    with stream(server, 1000) as connection:
        process.send_signal(number)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(number)
        rest(connection)
        assert ended_well(process)


def test_an_idle_server_ends_at_once(start: Start) -> None:
    process, _server = start(60)
    process.terminate()
    assert ended_well(process)
