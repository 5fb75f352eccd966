"""Eight streams through HTTP and the same eight sequences in an engine alone, in turn.

Owns the pairing: the same prompts, greedy, to the same length, timed from the request to the last
token, so that a noisy moment of the machine meets both. Knows no other load.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks.serve.engine_alone import Engine
from benchmarks.serve.raw_client import answers_of, num_completion_tokens
from benchmarks.serve.server import Server

MAX_TOKENS = 128
NUM_STREAMS = 8
THINGS = (
    *(
        "the sea",
        "old stones",
        "a boat",
        "the moon",
        "rain",
        "bread",
        "a garden",
        "winter",
        "music",
    ),
    *(
        "a letter",
        "the mountain",
        "a clock",
        "birds",
        "an island",
        "a bridge",
        "the forest",
        "a lamp",
    ),
)


def eight_streams(server: Server, engine: Engine, rounds: int) -> dict[str, Any]:
    """Rates in tokens a second; the ratio is the median of the rounds' ratios."""
    asked = engine.endless([f"Write a very long story about {t}." for t in THINGS], MAX_TOKENS)
    asked = asked[:NUM_STREAMS]
    if len(asked) < NUM_STREAMS:
        raise SystemExit(f"The model's answers are too short: {len(asked)} of {NUM_STREAMS}.")
    through_http(server, asked)  # warm both
    pairs = []
    for at in range(rounds):
        fresh = [f"{question} ({at})" for question in asked]  # nothing comes out of a cache
        pairs.append((through_http(server, fresh), engine.rate(fresh, MAX_TOKENS)))
    return {
        "http_tok_s": round(statistics.median(http for http, _ in pairs), 1),
        "engine_tok_s": round(statistics.median(alone for _, alone in pairs), 1),
        "ratio": round(statistics.median(http / alone for http, alone in pairs), 3),
        "rounds": [[round(http, 1), round(alone, 1)] for http, alone in pairs],
    }


def through_http(server: Server, questions: list[str]) -> float:
    bodies = [
        {
            "messages": [{"role": "user", "content": question}],
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        for question in questions
    ]
    started = time.perf_counter()
    answers = answers_of(server.port, bodies)
    took_s = time.perf_counter() - started
    return sum(map(num_completion_tokens, answers)) / took_s
