"""The measured process of this project: a replica's worker, greedy, as the server runs it.

    python -m benchmarks.ours MODEL.gguf THREADS

Everything but HTTP and text is in the figures: scheduling, sampling, streams.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from benchmarks.cases import CONTEXT_LEN, SEED, Case, serve_cases
from inference.engine.params import SamplingParams, SequenceRequest
from inference.engine.worker import Worker
from inference.loading import EngineSettings, LoadPlan, load_replica

GREEDY = SamplingParams(temperature=0.0)


def main(path: str, num_threads: int) -> None:
    settings = EngineSettings(
        backend="cpu",
        kernel_cache_dir=Path("~/.cache/pantheon/kernels").expanduser(),
        num_threads=num_threads,
        context_len=CONTEXT_LEN,
        kv_tokens=8 * CONTEXT_LEN,
    )
    plan = LoadPlan("bench", "bench", Path(path), digest="")
    replica = load_replica(
        plan, settings, lambda phase, share: None, lambda name, why: sys.exit(why)
    )
    serve_cases(lambda case: measure(replica.worker, case))
    replica.close("done")


def measure(worker: Worker, case: Case) -> float:
    rng = random.Random(SEED)
    streams = []
    started = time.perf_counter()
    for i in range(case.num_sequences):
        prompt = tuple(rng.randrange(1000, 40_000) for _ in range(case.num_prompt))
        request = SequenceRequest(f"bench-{i}", prompt, max(case.num_output, 1), sampling=GREEDY)
        streams.append(worker.submit(request))
    first = [len(stream.wait()) for stream in streams]
    prefilled = time.perf_counter()
    if case.measure == "prompt":
        return case.num_prompt * case.num_sequences / (prefilled - started)
    for stream in streams:
        while stream.wait():
            pass
    num_tokens = case.num_output * case.num_sequences - sum(first)
    return num_tokens / (time.perf_counter() - prefilled)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
