"""One streamed chat request over a raw asyncio socket, timed token by token.

A client library would cost more CPU than the server on the same two cores. Knows nothing about load.
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
    num_chunks: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    detail: str = ""


async def chat(port: int, body: dict[str, Any], hang_up_after: int | None = None) -> Record:
    """Ask and read to the end, or hang up after so many chunks."""
    record = Record()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _exchange(port, body, hang_up_after, record)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
        record.detail = f"{type(error).__name__}: {error}"
    return record


async def _exchange(
    port: int, body: dict[str, Any], hang_up_after: int | None, record: Record
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        payload = json.dumps(body).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(payload) + payload
        )
        await writer.drain()
        asked = last = time.perf_counter()
        status_line = await reader.readline()
        record.status = int(status_line.split()[1])
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            if name.lower() == "retry-after":
                record.retry_after_s = float(value)
        if record.status != 200:
            answer = (await reader.read()).decode()
            record.outcome = "refused" if '"error"' in answer else "lost"
            record.detail = answer[:300]
            return
        async for event in _events(reader):
            if event == "[DONE]":
                record.outcome = "result" if record.outcome == "lost" else record.outcome
                return
            chunk = json.loads(event)
            if "error" in chunk:
                record.outcome, record.detail = "failed", event[:300]
                continue
            if chunk.get("usage"):
                record.usage = chunk["usage"]
            if not any(c["delta"].get("content") for c in chunk["choices"]):
                continue
            now = time.perf_counter()
            if record.num_chunks:
                record.gaps_s.append(now - last)
            else:
                record.ttft_s = now - asked
            last = now
            record.num_chunks += 1
            if hang_up_after is not None and record.num_chunks >= hang_up_after:
                record.outcome = "gone"
                return
    finally:
        writer.close()


async def _events(reader: asyncio.StreamReader):  # type: ignore[no-untyped-def]
    """The data of each event; chunk sizes of the transfer encoding are lines of their own here."""
    while line := await reader.readline():
        if line.startswith(b"data: "):
            yield line[6:].decode().strip()
