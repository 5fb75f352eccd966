"""Clients that would take the server for themselves: everybody else is answered as ever.

For each: the others' answers come in their usual time, and the process grows by at most 64 MiB.
"""

from __future__ import annotations

import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.abuse import connect, post, watching
from tests.e2e.server_process import ServerProcess, server_process
from tests.fakes.tiny_gguf import TinyShape, write_tiny_gguf

GIB = 1 << 30
NUM_IDLE_STREAMS, BATCH = 2000, 100
NUM_HELD = 40  # in slots and in the queue: not answered yet, maybe
ENDLESS = {
    "model": "long",
    "messages": [{"role": "user", "content": "hello there"}],
    "max_tokens": 8000,
    "logit_bias": {"276": -100, "278": -100},  # no end
    "stream": True,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`long` can write for long; `other` is what everybody else asks. All limits are the usual ones."""
    folder = tmp_path_factory.mktemp("abuse")
    shape = TinyShape(context_len=8192)
    models = {
        name: write_tiny_gguf(folder / f"{name}.gguf", shape=shape) for name in ("long", "other")
    }
    with server_process(folder, PANTHEON_CONTEXT_LEN="8192") as running:
        named = [
            arg for name, path in models.items() for arg in ("--model", str(path), "--name", name)
        ]
        running.serve(*named)
        running.wait_until_serving(*models)
        yield running


def send_until_refused(connection: socket.socket, num_bytes: int, piece: bytes) -> bytes:
    """Send so much, or as much as the other side takes; what it answers."""
    try:
        for _ in range(num_bytes // len(piece)):
            connection.sendall(piece)
    except OSError:
        pass  # closed for us; the answer is still there to be read
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except OSError:
        pass
    return received


@pytest.mark.parametrize("is_chunked", [False, True], ids=["with a length", "in chunks"])
def test_bodies_of_a_gibibyte(server: ServerProcess, is_chunked: bool) -> None:
    """Four at once, sent whether or not anybody wants them: refused while they arrive."""
    how = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % GIB
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + how + b"\r\n\r\n"
    piece = b"x" * (1 << 20)
    if is_chunked:
        piece = b"%x\r\n" % len(piece) + piece + b"\r\n"
    answers: list[bytes] = []

    def attack() -> None:
        with connect(server) as connection:
            connection.sendall(head)
            answers.append(send_until_refused(connection, GIB, piece))

    with watching(server, "other") as watch:
        threads = [threading.Thread(target=attack) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1)
    watch.check()
    assert len(answers) == 4
    assert all(answer.startswith(b"HTTP/1.1 413") for answer in answers if answer)
    assert any(answers)


@pytest.mark.slow
def test_headers_that_take_for_ever(server: ServerProcess) -> None:
    """Two hundred clients, a byte every tenth of a second each, until they are told 408."""
    line = b"GET /v1/models HTTP/1.1\r\nX-Long: " + b"a" * 10_000
    with ExitStack() as stack, watching(server, "other") as watch:
        slow = [stack.enter_context(connect(server)) for _ in range(200)]
        started_s = time.monotonic()
        sent = 0
        while time.monotonic() - started_s < 3:
            for connection in slow:
                connection.sendall(line[sent : sent + 1])
            sent += 1
            time.sleep(0.1)
        watch_until = time.monotonic() + 20
        readable: list[socket.socket] = []
        while not readable and time.monotonic() < watch_until:
            readable, _, _ = select.select(slow, [], [], 0.5)
        assert readable, "nobody was told that its headers are late"
        assert readable[0].recv(200).startswith(b"HTTP/1.1 408")
    watch.check()


def test_readers_of_a_byte_a_second(server: ServerProcess) -> None:
    """Eight streams, one in each slot: the model goes on, and what they do not read stays bounded."""
    with ExitStack() as stack, watching(server, "other") as watch:
        readers = [stack.enter_context(connect(server, receive_bytes=4096)) for _ in range(8)]
        for reader in readers:
            post(reader, ENDLESS)
        for _ in range(8):
            for reader in readers:
                assert len(reader.recv(1)) == 1
            time.sleep(1)
    watch.check()


def wait_until_answered(connections: list[socket.socket], num: int) -> None:
    """Until so many of them have something to read."""
    poll = select.poll()  # `select` takes no files past the 1024th
    for connection in connections:
        poll.register(connection, select.POLLIN)
    deadline = time.monotonic() + 60
    while len(poll.poll(0)) < num:
        assert time.monotonic() < deadline, f"{len(poll.poll(0))} of {num} were answered"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("is_paced", [True, False], ids=["as they are answered", "all at once"])
def test_two_thousand_idle_streams(server: ServerProcess, is_paced: bool) -> None:
    """All have asked: a few are answered, a few wait, the rest were told 429. All stay and say no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = NUM_IDLE_STREAMS + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"this process may open {hard} files, {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    with ExitStack() as stack, watching(server, "other") as watch:
        idle = []
        for at in range(NUM_IDLE_STREAMS):
            idle.append(stack.enter_context(connect(server)))
            post(idle[-1], ENDLESS)
            if is_paced and at % BATCH == BATCH - 1:
                wait_until_answered(idle, at + 1 - NUM_HELD)
        wait_until_answered(idle, NUM_IDLE_STREAMS - NUM_HELD)
        watch.forget_times()  # their arrival was work; now they are idle
        time.sleep(5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    watch.check()
