"""Attention of every shape computes what the reference backend computes, however long the context."""

from __future__ import annotations

import numpy as np
import pytest

from accel.backend import run_step
from accel.cpu.backend import CpuBackend
from accel.reference.backend import ReferenceBackend
from tests.accel.cpu.models import (
    VOCAB_SIZE,
    Attention,
    attention_program,
    batch,
    limits,
    run_prompt,
    shuffled_pages,
    silent,
)

LONG = 700  # positions: three runs
SHAPES = {
    "one head": Attention(1, 1, 16),
    "half of 24": Attention(2, 2, 48),
    "eight heads a group": Attention(8, 1, 32),
    "three heads a group": Attention(9, 3, 64),
    "five heads a group": Attention(5, 1, 16),
    "head of 80": Attention(4, 2, 80),
    "head of 128": Attention(2, 1, 128),
    "head of 256": Attention(4, 1, 256),
    "partial rotation": Attention(2, 1, 64, num_pairs=20, magnitude=1.2),
    "bias": Attention(4, 2, 32, bias=True),
    "head norm": Attention(4, 2, 48, norm=True),
    "scale": Attention(4, 2, 32, scale=0.3),
    "window of 1": Attention(4, 2, 32, window=1),
    "window of 20": Attention(4, 2, 32, window=20),
    "window of a page": Attention(4, 2, 32, window=32),
    "window of 300": Attention(4, 2, 32, window=300, bias=True, norm=True),
}


def tokens(n, seed=0):
    return np.random.default_rng(seed).integers(0, VOCAB_SIZE, n)


def compiled(spec, of):
    return CpuBackend().compile(attention_program(spec), of, silent)


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_matches_the_reference(spec):
    """Within float16's rounding of keys and values, which both backends share."""
    of = limits(LONG, max_rows=LONG, max_logit_rows=LONG, num_slots=1)
    reference = ReferenceBackend().compile(attention_program(spec), of, silent)
    wanted = run_prompt(reference, tokens(LONG), of, LONG)
    executor = compiled(spec, of)
    got = run_prompt(executor, tokens(LONG), of, LONG)
    executor.close()
    np.testing.assert_allclose(got, wanted, atol=2e-3)


@pytest.mark.parametrize("window", [0, 40, 300])
@pytest.mark.parametrize("spec", [Attention(9, 3, 48), Attention(2, 2, 16)])
def test_same_bits_in_one_task_or_many(spec, window):
    """Whole prompts go through all runs in one task, single rows split them: no bit differs.

    Chunks that do not divide a tile, a page or a run included.
    """
    spec = Attention(spec.num_heads, spec.num_kv_heads, spec.head_dim, window=window)
    first = None
    for num_threads in (1, 3):
        of = limits(LONG, num_threads, max_rows=LONG, max_logit_rows=LONG, num_slots=1)
        executor = compiled(spec, of)
        for chunk_len in (1, 6, 129, LONG):
            got = run_prompt(executor, tokens(LONG), of, chunk_len)
            first = got if first is None else first
            np.testing.assert_array_equal(got, first, err_msg=f"{num_threads=} {chunk_len=}")
        executor.close()


def test_long_contexts_take_bounded_memory():
    """Sixteen times the context costs the buffers of a 512-row step less than twice the memory."""
    spec = Attention(9, 3, 64)
    sizes = []
    for num_positions in (2048, 32768):
        of = limits(num_positions, max_rows=512, max_logit_rows=1, num_slots=1)
        executor = compiled(spec, of)
        sizes.append(executor.memory.buffer_bytes)
        executor.close()
    assert sizes[1] < 2 * sizes[0]


def test_recycled_pages_may_hold_anything_finite():
    """What a page held before, however large, leaves no trace in its next owner."""
    spec, of = Attention(4, 2, 32), limits(64, num_slots=1)
    executor = compiled(spec, of)
    fresh = run_prompt(executor, tokens(40), of, 40)
    for pages in executor._keep[0][2]:
        pages.view(np.float16)[:] = 65504.0
    np.testing.assert_array_equal(run_prompt(executor, tokens(40), of, 40), fresh)
    executor.close()


def test_a_sequence_sees_its_own_slot_only():
    """Two sequences in one step, in each other's slots afterwards, get what each gets alone."""
    spec, of = Attention(4, 2, 32, window=24), limits(96, num_slots=2)
    executor = compiled(spec, of)
    alone = [run_prompt(executor, tokens(30, seed), of, 30, slot=seed) for seed in (0, 1)]
    table = shuffled_pages(of)[::-1].copy()
    step = batch(
        np.concatenate([tokens(30, 1), tokens(30, 0)]),
        np.tile(np.arange(30), 2),
        np.repeat([1, 0], 30),
        np.arange(60),
        table,
    )
    got = run_step(executor, step).copy()
    executor.close()
    np.testing.assert_array_equal(got, np.concatenate([alone[1], alone[0]]))
