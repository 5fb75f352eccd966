"""A conversation's second turn beside its first, through HTTP, by the time to the first token.

Owns the conversations: a history of about 3,000 tokens that no other shares, an answer, a short
question. One at a time, on a server that does nothing else. Knows no verdict.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from typing import Any

from benchmarks.serve.client import Record, chat
from benchmarks.serve.crowd import WORDS
from benchmarks.serve.server import Server

NUM_CONVERSATIONS = 5
HISTORY_WORDS = 2950  # with the template, about 3,000 tokens
MAX_TOKENS = 32
QUESTION = "And what came after that?"


def second_turns(server: Server) -> dict[str, Any]:
    """Milliseconds are medians; the ratio is the median of the conversations' ratios."""
    turns = asyncio.run(_conversations(server.port))
    first_s = [first.ttft_s for first, _ in turns]
    second_s = [second.ttft_s for _, second in turns]
    usages = [(first.usage, second.usage) for first, second in turns]
    new = [u["prompt_tokens"] - u["prompt_tokens_details"]["cached_tokens"] for _, u in usages]
    return {
        "conversations": len(turns),
        "history_tokens": round(statistics.median(u["prompt_tokens"] for u, _ in usages)),
        "computed_tokens": round(statistics.median(new)),
        "first_ms": round(1000 * statistics.median(first_s), 1),
        "second_ms": round(1000 * statistics.median(second_s), 1),
        "ratio": round(statistics.median(b / a for a, b in zip(first_s, second_s, strict=True)), 4),
        "rounds_ms": [
            [round(1000 * a, 1), round(1000 * b, 1)] for a, b in zip(first_s, second_s, strict=True)
        ],
    }


async def _conversations(port: int) -> list[tuple[Record, Record]]:
    return [await _conversation(port, seed) for seed in range(NUM_CONVERSATIONS)]


async def _conversation(port: int, seed: int) -> tuple[Record, Record]:
    words = random.Random(seed).choices(WORDS, k=HISTORY_WORDS)
    messages = [{"role": "user", "content": " ".join(words)}]
    first = await _turn(port, messages)
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": QUESTION},
    ]
    return first, await _turn(port, messages)


async def _turn(port: int, messages: list[dict[str, str]]) -> Record:
    body = {
        "messages": messages,
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    record = await chat(port, body)
    if record.outcome != "result" or not record.num_pieces:
        raise SystemExit(f"A turn did not end in an answer: {record.outcome} {record.detail}")
    return record
