"""A sequence's logits do not depend on its neighbours, its chunks or its pages, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from accel.backend import Limits, StepBatch, run_step
from accel.reference.backend import ReferenceBackend
from inference.model.architectures import ARCHITECTURES, record
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from tests.fakes.prompt_runs import prefill, run_rows
from tests.fakes.tiny_gguf import write_tiny_gguf

LIMITS = Limits(
    max_rows=160, max_logit_rows=160, num_slots=3, num_pages=12, max_pages_per_slot=4, kv_type="f16"
)
LENGTHS = (70, 1, 41)


@pytest.fixture(scope="module", params=sorted(ARCHITECTURES))
def executor(request, tmp_path_factory):
    path = write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "m.gguf", request.param, "Q8_0")
    with read_gguf(path) as file:
        program = fuse(record(file)[1])
        yield ReferenceBackend().compile(program, LIMITS, lambda phase, share: None)


def _tokens(length, seed=0):
    return np.random.default_rng(seed).integers(0, 256, length).tolist()


@pytest.mark.parametrize("chunk_len", [1, 7, 32, 33])
def test_chunks(executor, chunk_len):
    """A prompt in chunks, as small as one token, gives what it gives whole."""
    tokens = _tokens(70)
    whole = prefill(executor, tokens, LIMITS)
    np.testing.assert_array_equal(prefill(executor, tokens, LIMITS, chunk_len), whole)


def test_neighbours_and_scattered_pages(executor):
    """Three sequences in one step, in pages of any order, give what each gives alone."""
    prompts = [_tokens(length, seed) for seed, length in enumerate(LENGTHS)]
    alone = [prefill(executor, prompt, LIMITS) for prompt in prompts]
    table = np.random.default_rng(5).permutation(12).reshape(3, 4)
    batch = StepBatch(
        tokens=np.concatenate(prompts).astype(np.int32),
        positions=np.concatenate([np.arange(n) for n in LENGTHS]).astype(np.int32),
        slots=np.repeat([0, 1, 2], LENGTHS).astype(np.int32),
        logit_rows=np.arange(sum(LENGTHS), dtype=np.int32),
        page_table=table.astype(np.int32),
    )
    together = run_step(executor, batch).copy()
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_a_later_row_does_not_reach_back(executor):
    """Rewinding a slot and going on differently gives what a fresh sequence gives."""
    table = [list(range(4))]
    first, other = _tokens(40), _tokens(40, seed=9)
    fresh = prefill(executor, first[:20] + other[20:], LIMITS)
    prefill(executor, first, LIMITS)
    resumed = run_rows(executor, other[20:], 20, table)
    np.testing.assert_array_equal(resumed, fresh[20:])
