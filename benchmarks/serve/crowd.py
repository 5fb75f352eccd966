"""Who asks under load: talkers, talkers who hang up, clients with long prompts. Knows no verdict.

Everybody asks again as soon as they are answered, and waits as `Retry-After` tells them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.serve.client import Record, chat
from benchmarks.serve.server import MIB, Server

WORDS = (
    *("the", "sea", "is", "calm", "tonight", "and", "we", "walk"),
    *("along", "old", "stones", "while", "boats", "drift", "slowly", "home"),
)
LONG_PROMPT_WORDS = 1950  # with the template, about 2,000 tokens
LONG_SHARE = 0.05
HANG_UP_SHARE = 0.1
SAMPLE_S = 2.0
WARM_UP_SHARE = 0.2


@dataclass
class Seen:
    """What the clients saw; `memory`: (seconds since the start, RSS in bytes)."""

    records: list[Record] = field(default_factory=list)
    long_records: list[Record] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)


def question(rng: random.Random, num_words: int, max_tokens: int) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": " ".join(rng.choices(WORDS, k=num_words))}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": rng.randrange(1 << 30),
    }


async def talker(port: int, seed: int, until: float, records: list[Record]) -> None:
    rng = random.Random(seed)
    while time.monotonic() < until:
        hang_up_after = rng.randrange(1, 20) if rng.random() < HANG_UP_SHARE else None
        asked = question(rng, rng.randrange(5, 120), rng.randrange(16, 96))
        await _ask(port, asked, hang_up_after, until, records)


async def long_prompter(port: int, seed: int, until: float, records: list[Record]) -> None:
    rng = random.Random(-seed - 1)
    while time.monotonic() < until:
        await _ask(port, question(rng, LONG_PROMPT_WORDS, 16), None, until, records)


async def _ask(
    port: int, body: dict[str, Any], hang_up_after: int | None, until: float, into: list[Record]
) -> None:
    record = await chat(port, body, hang_up_after)
    into.append(record)
    await asyncio.sleep(min(record.retry_after_s, max(0.0, until - time.monotonic())))


async def under_load(server: Server, num_clients: int, seconds: float) -> dict[str, Any]:
    """So many clients for so long, and what they saw."""
    seen = Seen()
    num_long = max(1, round(num_clients * LONG_SHARE))
    until = time.monotonic() + seconds
    port = server.port
    await asyncio.gather(
        # These come first and so always find room: who is answered asks again before anybody else.
        *(long_prompter(port, i, until, seen.long_records) for i in range(num_long)),
        *(talker(port, i, until, seen.records) for i in range(num_clients - num_long)),
        _watch(server, until, seen.memory),
    )
    return summary(seen, seconds)


async def _watch(server: Server, until: float, memory: list[tuple[float, int]]) -> None:
    started = time.monotonic()
    while time.monotonic() < until:
        memory.append((time.monotonic() - started, server.rss_bytes()))
        await asyncio.sleep(SAMPLE_S)


def summary(seen: Seen, seconds: float) -> dict[str, Any]:
    everyone = seen.records + seen.long_records
    gaps = sorted(gap for record in everyone for gap in record.gaps_s)
    settled = [rss for at, rss in seen.memory if at >= seconds * WARM_UP_SHARE]
    lost = [record.detail for record in everyone if record.outcome == "lost"]
    num_tokens = sum(r.usage.get("completion_tokens", 0) for r in everyone)
    first_tokens = sorted(r.ttft_s for r in seen.records if r.ttft_s)
    return {
        "seconds": seconds,
        "requests": len(everyone),
        "outcomes": dict(Counter(r.outcome for r in everyone)),
        "statuses": dict(Counter(str(r.status) for r in everyone)),
        "lost": lost[:10],
        "failed": [r.detail for r in everyone if r.outcome == "failed"][:10],
        "tokens_per_s": round(num_tokens / seconds, 1),
        "long_prompts": sum(r.outcome == "result" for r in seen.long_records),
        "gaps": len(gaps),
        "gap_ms": {p: round(1000 * quantile(gaps, float(p)), 1) for p in ("0.5", "0.99", "1.0")},
        "ttft_s": {p: round(quantile(first_tokens, float(p)), 2) for p in ("0.5", "0.99")},
        "rss_mib": {
            "after warm-up": settled[0] // MIB if settled else 0,
            "highest": max(settled) // MIB if settled else 0,
            "end": settled[-1] // MIB if settled else 0,
        },
    }


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
