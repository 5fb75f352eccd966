"""The measured process of llama.cpp, through llama-cpp-python's low-level API, in its own virtualenv.

    python benchmarks/peer_llama_cpp.py MODEL.gguf THREADS

Only `llama_decode` and its synchronisation are timed: no sampling, no text, its defaults otherwise.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import llama_cpp

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.cases import (
    CONTEXT_LEN,
    MAX_SEQUENCES,
    Case,
    Started,
    peak_rss_bytes,
    prompts,
    serve_cases,
)

BATCH = 512


class Peer:
    def __init__(self, path: str, num_threads: int) -> None:
        llama_cpp.llama_log_set(_silent, None)
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params()
        )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = MAX_SEQUENCES * CONTEXT_LEN
        params.n_batch = params.n_ubatch = BATCH
        params.n_seq_max = MAX_SEQUENCES
        params.n_threads = params.n_threads_batch = num_threads
        self.context = llama_cpp.llama_init_from_model(model, params)
        self.batch = llama_cpp.llama_batch_init(BATCH, 0, 1)

    def decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """rows: token, position, sequence, wants logits."""
        self.batch.n_tokens = len(rows)
        for i, (token, position, sequence, wants_logits) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, sequence
            self.batch.logits[i] = wants_logits
        status = llama_cpp.llama_decode(self.context, self.batch)
        if status:
            raise RuntimeError(f"llama_decode: {status}")
        llama_cpp.llama_synchronize(self.context)

    def measure(self, case: Case) -> float:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        started = time.perf_counter()
        for sequence, prompt in enumerate(prompts(case)):
            rows = [(t, i, sequence, i == len(prompt) - 1) for i, t in enumerate(prompt)]
            for at in range(0, len(rows), BATCH):
                self.decode(rows[at : at + BATCH])
        prefilled = time.perf_counter()
        if case.measure == "prompt":
            return case.num_prompt * case.num_sequences / (prefilled - started)
        if case.measure == "ttft":
            return 1000 * (prefilled - started)
        for i in range(case.num_output):
            at = case.num_prompt + i
            self.decode([(1000 + i, at, sequence, True) for sequence in range(case.num_sequences)])
        return case.num_output * case.num_sequences / (time.perf_counter() - prefilled)


@llama_cpp.llama_log_callback
def _silent(level, text, data):  # type: ignore[no-untyped-def]
    pass


def main(path: str, num_threads: int) -> None:
    started = time.perf_counter()
    peer = Peer(path, num_threads)
    # Its weights are mapped; the first pass is what reads them.
    peer.decode([(1, 0, 0, True)])
    serve_cases(Started(time.perf_counter() - started, peak_rss_bytes()), peer.measure)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
