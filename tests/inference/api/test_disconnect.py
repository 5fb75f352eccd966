"""Clients that go away: whatever the request was doing, its slot, pages, queue place and lease come back."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

import pytest

from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_until, request_bytes, wait_until

FREE_WITHIN_S = 0.25
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
PATH = "/v1/chat/completions"


def reset(connection: socket.socket) -> None:
    """End the connection with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def close(connection: socket.socket) -> None:
    connection.close()


@pytest.fixture
def gate(serving: FakeServing) -> Gate:
    """Holds the model before its next step."""
    made = Gate()
    serving.before_step = made
    serving.say("a long answer that nobody will read to its end")
    yield made
    made.open()


both_ways = pytest.mark.parametrize("leave", [reset, close])
both_modes = pytest.mark.parametrize("stream", [True, False])


@both_ways
@both_modes
def test_while_queued(
    wire: Wire, serving: FakeServing, gate: Gate, stream: bool, leave: Callable
) -> None:
    serving.add("single", num_slots=1)
    first = wire.send("POST", PATH, CHAT | {"model": "single"})
    gate.wait_for_step()
    (_, replica) = serving.runtime.replicas()
    connection = wire.send("POST", PATH, CHAT | {"model": "single", "stream": stream})
    wait_until(lambda: replica.worker.stats().num_queued == 1)
    leave(connection)
    assert wait_until(lambda: replica.worker.stats().num_queued == 0) <= FREE_WITHIN_S
    wait_until(lambda: replica.num_leases == 1)
    leave(first)
    assert wait_until(lambda: serving.num_busy() == 0) <= FREE_WITHIN_S


@both_ways
@both_modes
def test_in_prefill(
    wire: Wire, serving: FakeServing, gate: Gate, stream: bool, leave: Callable
) -> None:
    """Before the first token, streaming or not, and while the model is inside a step."""
    connection = wire.send("POST", PATH, CHAT | {"stream": stream})
    gate.wait_for_step()
    assert serving.num_busy() == 3  # a lease, a slot and a page
    leave(connection)
    assert wait_until(lambda: serving.num_busy() == 0) <= FREE_WITHIN_S


@both_ways
@both_modes
def test_in_decode(
    wire: Wire, serving: FakeServing, gate: Gate, stream: bool, leave: Callable
) -> None:
    connection = wire.send("POST", PATH, CHAT | {"stream": stream})
    (replica,) = serving.runtime.replicas()
    gate.allow(4)
    wait_until(lambda: replica.worker.stats().counts.num_output_tokens >= 3)
    if stream:
        read_until(connection, b'"content":"a')
    leave(connection)
    assert wait_until(lambda: serving.num_busy() == 0) <= FREE_WITHIN_S


@both_ways
def test_mid_body(wire: Wire, serving: FakeServing, leave: Callable) -> None:
    """A request that never arrived whole was never begun."""
    whole = request_bytes("POST", PATH, CHAT)
    connection = wire.server.connect()
    connection.sendall(whole[:-10])
    leave(connection)
    serving.say("x")
    assert wire.chat().status == 200
    assert serving.num_accepted() == 1


@both_ways
def test_after_the_end(wire: Wire, serving: FakeServing, leave: Callable) -> None:
    serving.say("x")
    connection = wire.send("POST", PATH, CHAT | {"stream": True})
    read_until(connection, b"[DONE]")
    leave(connection)
    assert wait_until(lambda: serving.num_busy() == 0) <= FREE_WITHIN_S


@both_ways
@both_modes
def test_finished_but_unread(
    wire: Wire, serving: FakeServing, stream: bool, leave: Callable
) -> None:
    """The model is done, its client has not taken the answer.

    A stream's lease comes back with its client's end; an answer in one piece holds nothing by then.
    """
    serving.say("x" * 400)
    connection = wire.server.connect(receive_bytes=4096)
    body = CHAT | {"stream": stream, "logprobs": True, "top_logprobs": 20}
    connection.sendall(request_bytes("POST", PATH, body))
    (replica,) = serving.runtime.replicas()
    wait_until(lambda: serving.num_accepted() == 1 and replica.worker.stats().num_slots_used == 0)
    assert connection.recv(1) == b"H"  # it has begun to arrive
    time.sleep(0.2)
    assert replica.num_leases == stream  # it stays unread
    leave(connection)
    assert wait_until(lambda: serving.num_busy() == 0) <= FREE_WITHIN_S


@both_modes
def test_two_hundred_that_leave_at_once(wire: Wire, serving: FakeServing, stream: bool) -> None:
    """Wherever each of them is caught, also between a view and its response, none leaves anything."""
    serving.say("x" * 50)
    for _ in range(200):
        reset(wire.send("POST", PATH, CHAT | {"stream": stream}))
    # Those that came before it may still fill the queue.
    wait_until(lambda: wire.chat(max_tokens=3).status == 200)
    wait_until(lambda: serving.num_busy() == 0)


def test_many_prompts_end_together(wire: Wire, serving: FakeServing, gate: Gate) -> None:
    """All choices of a list of prompts are given up, also those that had not begun."""
    body = {"prompt": ["a"] * 20, "max_tokens": 9, "stream": True}
    connection = wire.send("POST", "/v1/completions", body)
    wait_until(lambda: serving.num_accepted() == 8)
    reset(connection)
    assert wait_until(lambda: serving.num_busy() == 0) <= FREE_WITHIN_S
    assert serving.num_accepted() == 8
