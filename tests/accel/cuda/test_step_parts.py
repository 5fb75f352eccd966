"""Parts of a step: every row once, in order, and the same bits as in one piece."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel.backend import run_step
from accel.cuda.step_parts import PART_ROWS, max_parts, step_parts
from tests.accel.cpu.models import (
    VOCAB_SIZE,
    Attention,
    attention_program,
    batch,
    limits,
    shuffled_pages,
)
from tests.accel.cuda.models import compile_program

LIMITS = limits(256, max_rows=136, max_logit_rows=8, num_slots=3)


def step_of(num_rows, logit_rows):
    rows = np.arange(num_rows)
    return batch(rows, rows, rows * 0, logit_rows, shuffled_pages(LIMITS))


@given(st.integers(1, 300), st.integers(1, 3), st.data())
def test_every_row_once(num_rows, num_stages, data):
    wanted = data.draw(st.sets(st.integers(0, num_rows - 1), max_size=8))
    parts = list(step_parts(step_of(num_rows, sorted(wanted)), num_stages))
    assert len(parts) <= max_parts(num_rows, num_stages)
    assert np.concatenate([part.tokens for part in parts]).tolist() == list(range(num_rows))
    assert np.concatenate([part.positions for part in parts]).tolist() == list(range(num_rows))
    found = [part.tokens[row] for part in parts for row in part.logit_rows]
    assert found == sorted(wanted)


def test_one_die_and_narrow_steps_are_left_whole():
    assert max_parts(1000, 1) == 1
    assert max_parts(PART_ROWS, 2) == 1
    assert max_parts(136, 2) == 5


def test_the_same_bits(dies):
    """Two decodes and a long chunk, of which rows in several parts want logits, on one die and on two."""
    dies(2)
    program, rng = attention_program(Attention(), num_layers=4), np.random.default_rng(0)
    table, results = shuffled_pages(LIMITS), []
    ids = rng.integers(0, VOCAB_SIZE, 130)
    slots, positions = [0, 1] + [2] * 128, [0, 0, *range(128)]
    for num_dies in (1, 2):
        executor = compile_program(program, LIMITS, num_dies)
        steps = [run_step(executor, batch(ids, positions, slots, [0, 1, 40, 129], table)).copy()]
        steps.append(run_step(executor, batch(ids[:1], [128], [2], [0], table)).copy())
        results.append(np.concatenate(steps))
        executor.close()
    assert results[0].shape == (5, VOCAB_SIZE)
    np.testing.assert_array_equal(*results)
