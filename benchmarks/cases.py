"""What is measured: the cases, and the line protocol between the runner and the measured processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """num_prompt tokens are prefilled, then num_output decoded, for num_sequences at once.

    `measure` is "prompt" (prompt tokens/s) or "decode" (output tokens/s, all sequences together).
    """

    name: str
    measure: str
    num_prompt: int
    num_output: int = 0
    num_sequences: int = 1


CASES = (
    Case("prompt 512", "prompt", num_prompt=512),
    Case("decode, context 0", "decode", num_prompt=1, num_output=128),
    Case("decode, context 512", "decode", num_prompt=512, num_output=96),
    Case("8 sequences, sum", "decode", num_prompt=16, num_output=64, num_sequences=8),
)
CONTEXT_LEN = 1024
SEED = 7


def serve_cases(run: Callable[[Case], float]) -> None:
    """Answer one case a line on stdin with one number a line on stdout, until stdin ends."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(run(Case(**json.loads(line))), flush=True)
