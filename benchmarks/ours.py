"""The measured process of this project: a replica's worker, greedy, as the server runs it.

    python -m benchmarks.ours MODEL.gguf THREADS

Everything but HTTP and text is in the figures: scheduling, sampling, streams.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from benchmarks.cases import CONTEXT_LEN, Case, Started, peak_rss_bytes, prompts, serve_cases
from inference.engine.params import SamplingParams, SequenceRequest
from inference.engine.worker import Worker
from inference.loading import EngineSettings, LoadPlan, load_replica

GREEDY = SamplingParams(temperature=0.0)
_tenants = itertools.count()


def main(path: str, num_threads: int) -> None:
    settings = EngineSettings(
        backend="cpu",
        kernel_cache_dir=Path("~/.cache/pantheon/kernels").expanduser(),
        num_threads=num_threads,
        context_len=CONTEXT_LEN,
    )
    plan = LoadPlan("bench", "bench", Path(path), digest="")
    started = time.perf_counter()
    replica = load_replica(
        plan, settings, lambda phase, share: None, lambda name, why: sys.exit(why)
    )
    loaded = Started(
        time.perf_counter() - started,
        peak_rss_bytes(),
        replica.memory.weight_bytes + replica.memory.kv_bytes,
    )
    serve_cases(loaded, lambda case: measure(replica.worker, case))
    replica.close("done")


def measure(worker: Worker, case: Case) -> float:
    # A tenant of its own each time: nothing may come out of a cache.
    tenant = str(next(_tenants))
    started = time.perf_counter()
    streams = [
        worker.submit(
            SequenceRequest(
                f"{tenant}-{i}",
                tuple(prompt),
                max(case.num_output, 1),
                sampling=GREEDY,
                tenant=tenant,
            )
        )
        for i, prompt in enumerate(prompts(case))
    ]
    first = [len(stream.wait()) for stream in streams]
    prefilled = time.perf_counter()
    if case.measure == "prompt":
        return case.num_prompt * case.num_sequences / (prefilled - started)
    if case.measure == "ttft":
        return 1000 * (prefilled - started)
    for stream in streams:
        while stream.wait():
            pass
    num_tokens = case.num_output * case.num_sequences - sum(first)
    return num_tokens / (time.perf_counter() - prefilled)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
