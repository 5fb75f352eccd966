"""Short requests for the fake executor, and how a plain thread reads the answers."""

from __future__ import annotations

from inference.engine.config import EngineConfig
from inference.engine.params import SamplingParams, SequenceRequest

VOCAB_SIZE = 97
CONFIG = EngineConfig(context_len=256, num_pages=64, num_slots=8, chunk_len=16)
GREEDY = SamplingParams(temperature=0)


def request_of(prompt, max_tokens=8, sampling=GREEDY, end_ids=(), request_id="r", tenant=""):
    return SequenceRequest(
        request_id,
        tuple(prompt),
        max_tokens,
        frozenset(end_ids),
        sampling=sampling,
        tenant=tenant,
    )


def read_all(stream, timeout_s=20.0):
    """Every token id of a stream, read from this thread."""
    ids = []
    while tokens := stream.wait(timeout_s):
        ids += [token.id for token in tokens]
    return ids
