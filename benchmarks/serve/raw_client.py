"""Streamed chat requests whose answers are taken as bytes while they come, and read once all are there.

The cheapest client there is: on the cores that serve it, what it thinks of a token would be counted
against the server. Knows nothing about load.
"""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Sequence
from typing import Any

TIMEOUT_S = 60.0


def answers_of(port: int, bodies: Sequence[dict[str, Any]]) -> list[bytes]:
    """All of them asked at once; each answer whole, head and chunk sizes included."""
    answers = [bytearray() for _ in bodies]
    with selectors.DefaultSelector() as selector:
        for body, answer in zip(bodies, answers, strict=True):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(_request(json.dumps(body).encode()))
            selector.register(connection, selectors.EVENT_READ, answer)
        while selector.get_map():
            ready = selector.select(TIMEOUT_S)
            if not ready:
                raise SystemExit(f"No stream had a token within {TIMEOUT_S:g} s.")
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                if piece := key.fileobj.recv(1 << 16):
                    key.data.extend(piece)
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    return [bytes(each) for each in answers]


def num_completion_tokens(answer: bytes) -> int:
    """By its usage chunk. Raises: SystemExit, when the stream did not end in a result."""
    events = [line[6:] for line in answer.split(b"\n") if line.startswith(b"data: ")]
    if not events or events[-1] != b"[DONE]":
        raise SystemExit(f"A stream did not end in a result: {answer[-500:]!r}")
    last = json.loads(events[-2])
    if not last.get("usage"):
        raise SystemExit(f"A stream did not end in a result: {last}")
    return int(last["usage"]["completion_tokens"])


def _request(payload: bytes) -> bytes:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    return head % len(payload) + payload
