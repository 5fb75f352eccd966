"""The measured engine without HTTP: what the same process does for the same prompts from within.

    python -m benchmarks.serve.engine_alone MODEL.gguf

Answers one JSON request a line on stdin with one JSON line on stdout (see `Engine`). Owns the
figures that a server's are held against: the rate of eight sequences, a step and a chunk.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from accel.host import num_cores
from benchmarks.measured import ROOT
from inference.engine.params import SamplingParams, SequenceRequest
from inference.engine.stream import TokenStream
from inference.loading import EngineSettings, LoadPlan, load_replica

GREEDY = SamplingParams(temperature=0.0)
CHUNK_LEN = 128
LONG_PROMPT_LEN = 2048


class Engine:
    """The child, asked from the parent."""

    def __init__(self, model: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.serve.engine_alone", str(model)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._read() != "ready":
            raise SystemExit("The engine did not start.")

    def endless(self, questions: list[str], max_tokens: int) -> list[str]:
        """Those of the questions whose greedy answers do not end before so many tokens."""
        found: list[str] = self._ask("endless", questions, max_tokens)
        return found

    def rate(self, questions: list[str], max_tokens: int) -> float:
        """Output tokens a second of all of them at once, from the request to the last token."""
        rate: float = self._ask("rate", questions, max_tokens)
        return rate

    def times_s(self) -> dict[str, float]:
        """ "step": eight decoding sequences. "chunk": the last 128 tokens of a 2,048-token prompt."""
        times: dict[str, float] = self._ask("times", [], 0)
        return times

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def _ask(self, what: str, questions: list[str], max_tokens: int) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, questions, max_tokens]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None


class Asked:
    """Inside the child."""

    def __init__(self, model: Path) -> None:
        settings = EngineSettings(
            backend="cpu",
            kernel_cache_dir=Path("~/.cache/pantheon/kernels").expanduser(),
            num_threads=num_cores(),
        )
        plan = LoadPlan("bench", "bench", model, digest="")
        self.replica = load_replica(
            plan, settings, lambda phase, share: None, lambda name, why: sys.exit(why)
        )
        self._tenants = itertools.count()

    def endless(self, questions: list[str], max_tokens: int) -> list[str]:
        streams = self._submit([self._ids(question) for question in questions], max_tokens)
        found = [q for q, s in zip(questions, streams, strict=True) if read_all(s) == max_tokens]
        return found

    def rate(self, questions: list[str], max_tokens: int) -> float:
        prompts = [self._ids(question) for question in questions]
        started = time.perf_counter()
        streams = self._submit(prompts, max_tokens)
        num_tokens = sum(read_all(stream) for stream in streams)
        return num_tokens / (time.perf_counter() - started)

    def times(self) -> dict[str, float]:
        ids = [1000 + i % 20_000 for i in range(LONG_PROMPT_LEN)]
        chunks = []
        for first in range(3):
            prompt = [first, *ids[1:]]
            self._submit([prompt[: -CHUNK_LEN + 1]], 1, "chunks")[0].wait()  # into the prefix cache
            started = time.perf_counter()
            self._submit([prompt], 1, "chunks")[0].wait()
            chunks.append(time.perf_counter() - started)
        before = self.replica.worker.stats().counts
        started = time.perf_counter()
        for stream in self._submit([[1000 + i] for i in range(8)], 64):
            read_all(stream)
        num_steps = self.replica.worker.stats().counts.num_steps - before.num_steps
        step_s = (time.perf_counter() - started) / num_steps
        return {"chunk": statistics.median(chunks), "step": step_s}

    def _ids(self, question: str) -> list[int]:
        text = self.replica.text
        return text.encode_chat(text.chat_template.render([{"role": "user", "content": question}]))

    def _submit(
        self, prompts: list[list[int]], max_tokens: int, tenant: str = ""
    ) -> list[TokenStream]:
        # A tenant of its own each time: nothing may come out of a cache unless it is asked for.
        tenant = tenant or str(next(self._tenants))
        end_ids = self.replica.text.tokenizer.end_ids
        return [
            self.replica.worker.submit(
                SequenceRequest(
                    f"{tenant}-{i}", tuple(p), max_tokens, end_ids, sampling=GREEDY, tenant=tenant
                )
            )
            for i, p in enumerate(prompts)
        ]


def read_all(stream: TokenStream) -> int:
    """How many tokens it had."""
    num_tokens = 0
    while tokens := stream.wait():
        num_tokens += len(tokens)
    return num_tokens


def main(model: Path) -> None:
    asked = Asked(model)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        what, questions, max_tokens = json.loads(line)
        match what:
            case "endless":
                answer: Any = asked.endless(questions, max_tokens)
            case "rate":
                answer = asked.rate(questions, max_tokens)
            case _:
                answer = asked.times()
        print(json.dumps(answer), flush=True)
    asked.replica.close("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
