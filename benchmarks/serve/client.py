"""One streamed chat request over a raw socket, timed token by token. Knows nothing about load.

Lines are cut by hand: a client library would cost more of the same two cores than the server does.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 600.0


@dataclass
class Record:
    """`outcome`: result, refused (an OpenAI error before the stream), failed (an error event inside
    it), gone (this client hung up) or lost (anything else: what must never happen)."""

    outcome: str = "lost"
    status: int = 0
    retry_after_s: float = 0.0
    ttft_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    num_pieces: int = 0
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    detail: str = ""


async def chat(port: int, body: dict[str, Any], hang_up_after: int | None = None) -> Record:
    """Ask and read to the end, or hang up after so many pieces of text."""
    loop = asyncio.get_running_loop()
    record = Record()
    try:
        _, exchange = await loop.create_connection(
            lambda: _Exchange(record, body, hang_up_after), "127.0.0.1", port
        )
        async with asyncio.timeout(TIMEOUT_S):
            await exchange.done
    except (OSError, TimeoutError, ValueError) as error:
        record.outcome, record.detail = "lost", f"{type(error).__name__}: {error}"
    return record


class _Exchange(asyncio.Protocol):
    def __init__(self, record: Record, body: dict[str, Any], hang_up_after: int | None) -> None:
        self._record, self._hang_up_after = record, hang_up_after
        self._payload = json.dumps(body).encode()
        self._rest = b""
        self._head: list[bytes] = []
        self._in_head = True
        self._error_body = b""
        self._is_refused = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(self._payload)
            + self._payload
        )
        self._asked = self._last = time.perf_counter()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        try:
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(line, now)
        except (ValueError, KeyError, IndexError) as error:
            self._record.outcome, self._record.detail = "lost", f"{error!r} in {data[:300]!r}"
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        record = self._record
        if self._is_refused:
            answer = (self._error_body + self._rest).decode(errors="replace")
            record.outcome = "refused" if '"error"' in answer else "lost"
            record.detail = answer[:300]
        elif record.outcome == "lost" and not record.detail:
            record.detail = f"the connection ended early: {error}"
        if not self.done.done():
            self.done.set_result(None)

    def _take(self, line: bytes, now: float) -> None:
        if self._in_head:
            self._take_head(line.strip())
        elif self._is_refused:
            self._error_body += line
        elif line.startswith(b"data: "):
            self._take_event(line[6:], now)

    def _take_head(self, line: bytes) -> None:
        if line:
            self._head.append(line)
            return
        self._in_head = False
        self._record.status = int(self._head[0].split()[1])
        self._is_refused = self._record.status != 200
        for each in self._head[1:]:
            name, _, value = each.partition(b":")
            if name.lower() == b"retry-after":
                self._record.retry_after_s = float(value)

    def _take_event(self, event: bytes, now: float) -> None:
        record = self._record
        if event == b"[DONE]":
            record.outcome = "result" if record.outcome == "lost" else record.outcome
            return
        chunk = json.loads(event)
        if "error" in chunk:
            record.outcome, record.detail = "failed", event[:300].decode()
            return
        if chunk.get("usage"):
            record.usage = chunk["usage"]
        piece = "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
        if not piece:
            return
        record.text += piece
        if record.num_pieces:
            record.gaps_s.append(now - self._last)
        else:
            record.ttft_s = now - self._asked
        self._last = now
        record.num_pieces += 1
        if record.num_pieces == self._hang_up_after:
            record.outcome = "gone"
            self._transport.abort()
