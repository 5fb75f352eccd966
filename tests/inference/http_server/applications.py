"""ASGI applications of a few lines, for tests of the server alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

PIECE = b"x" * 10_000


async def body_of(receive: Callable) -> bytes:
    body = b""
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        if not message.get("more_body"):
            return body


async def start(send: Callable, **headers: str) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": raw})


async def echo(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
    """Answers with how many bytes came."""
    text = str(len(await body_of(receive))).encode()
    await start(send, **{"content-length": str(len(text))})
    await send({"type": "http.response.body", "body": text})


async def echo_target(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
    """Answers with the host and the path that were asked for."""
    host = next(value for name, value in scope["headers"] if name == b"host")
    body = b"%b %b?%b" % (host, scope["path"].encode(), scope["query_string"])
    await start(send, **{"content-length": str(len(body))})
    await send({"type": "http.response.body", "body": body})


class Endless:
    """Streams as fast as it may, or a piece every `pause_s`, until the client is gone."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s = pause_s
        self.num_sent = 0
        self.num_running = 0

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["path"] != "/endless":
            return await echo(scope, receive, send)
        await body_of(receive)
        self.num_running += 1
        writing = asyncio.ensure_future(self._write(send))
        try:
            message = await receive()
            assert message["type"] == "http.disconnect"
        finally:
            writing.cancel()
            self.num_running -= 1

    async def _write(self, send: Callable) -> None:
        await start(send)
        while True:
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            self.num_sent += 1
            await asyncio.sleep(self.pause_s)


class Greedy(Endless):
    """Lets nothing else have a turn itself, and notes how much it wrote between two turns of others."""

    most_at_once = 0

    async def _write(self, send: Callable) -> None:
        await start(send)
        loop = asyncio.get_running_loop()
        turn = asyncio.Event()
        while True:
            num_at_once = 0
            turn.clear()
            loop.call_soon(turn.set)
            while not turn.is_set():
                await send({"type": "http.response.body", "body": PIECE, "more_body": True})
                self.num_sent += 1
                num_at_once += len(PIECE)
                self.most_at_once = max(self.most_at_once, num_at_once)
