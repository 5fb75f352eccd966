"""Streams that nobody reads, over real sockets: others are served as ever, and nothing is lost."""

from __future__ import annotations

import json
import socket
import statistics
import time

from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_answer, request_bytes, wait_until

PATH = "/v1/chat/completions"


def deaf(wire: Wire, **fields: object) -> socket.socket:
    """A client that asks for a stream and does not read."""
    connection = wire.server.connect(receive_bytes=32 << 10)
    messages = [{"role": "user", "content": "Hi"}]
    body = {"messages": messages, "stream": True, **fields}
    connection.sendall(request_bytes("POST", PATH, body))
    return connection


def chat_s(wire: Wire) -> float:
    started_s = time.monotonic()
    assert wire.chat(max_tokens=4).status == 200
    return time.monotonic() - started_s


def test_others_are_admitted_at_once_and_every_token_comes_when_it_is_read(
    wire: Wire, serving: FakeServing
) -> None:
    serving.runtime.remove("r0").close("Replaced.")
    replica = serving.add("tiny", num_pages=256, context_len=8192, num_slots=4)
    (the_id,) = serving.text.encode_chat(" the")
    serving.script.ids = [the_id] * 1_000_000
    fields = {"logprobs": True, "top_logprobs": 20, "temperature": 0, "max_tokens": 1500}
    connections = [deaf(wire, **fields) for _ in range(8)]
    try:
        wait_until(lambda: replica.worker.stats().num_paused == 8, within_s=30)
        # Without a place it would wait for a reader. The median: one of them may meet a busy machine.
        assert statistics.median(chat_s(wire) for _ in range(8)) < 1
        # Four for the other four, one for those who came later; more where a client's host took some.
        assert replica.worker.stats().counts.num_parked >= 5
        answer = read_answer(connections[0])
        contents = [
            chunk["choices"][0]["delta"].get("content", "")
            for chunk in map(json.loads, answer.events[:-1])
        ]
        assert "".join(contents).count("the") == 1500
        biggest = max(len(each) for each in answer.events)
        assert biggest < 128 << 10, "catching up is no single huge event"
    finally:
        for connection in connections:
            connection.close()
    wait_until(lambda: serving.num_busy() == 0)
