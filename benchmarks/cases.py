"""What is measured: the cases, and the line protocol between the runner and the measured processes."""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Case:
    """num_prompt tokens are prefilled, then num_output decoded, for num_sequences at once.

    `measure` is "prompt" (prompt tokens/s), "decode" (output tokens/s, all sequences together) or
    "ttft" (milliseconds from the request to the first token).
    """

    name: str
    measure: str
    num_prompt: int
    num_output: int = 0
    num_sequences: int = 1


@dataclass(frozen=True)
class Started:
    """What a measured process says when it has loaded. Bytes; None where it cannot tell."""

    load_s: float
    peak_rss_bytes: int
    weight_and_kv_bytes: int | None = None


PROMPT_512 = Case("prompt 512", "prompt", num_prompt=512)
DECODE_0 = Case("decode, context 0", "decode", num_prompt=1, num_output=128)
EIGHT = Case("8 sequences, sum", "decode", num_prompt=16, num_output=64, num_sequences=8)
SHORT = (PROMPT_512, DECODE_0, EIGHT)
FULL = (
    PROMPT_512,
    Case("prompt 4096", "prompt", num_prompt=4096),
    DECODE_0,
    Case("decode, context 512", "decode", num_prompt=512, num_output=96),
    Case("decode, context 4096", "decode", num_prompt=4096, num_output=64),
    Case("4 sequences, sum", "decode", num_prompt=16, num_output=64, num_sequences=4),
    EIGHT,
    Case("first token, prompt 64", "ttft", num_prompt=64),
)
CONTEXT_LEN = 4096 + 256
MAX_SEQUENCES = 8


def prompts(case: Case) -> list[list[int]]:
    """Token ids that every model has, the same on both sides, different for every sequence and case."""
    rng = random.Random(f"{case.name}")
    return [
        [rng.randrange(1000, 30_000) for _ in range(case.num_prompt)]
        for _ in range(case.num_sequences)
    ]


def peak_rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def serve_cases(started: Started, run: Callable[[Case], float]) -> None:
    """Answer one case a line on stdin with one number a line on stdout, until stdin ends."""
    print(json.dumps(asdict(started)), flush=True)
    for line in sys.stdin:
        print(run(Case(**json.loads(line))), flush=True)
