"""Launch geometry covers everything exactly once, and keeps what bits depend on fixed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernels.cuda.catalogue import GROUPS, MATMULS, MAX_GROUP
from kernels.cuda.launches import (
    head_parts,
    matmul_grid,
    matmul_shape,
    num_runs,
    run_len,
)

sizes = st.integers(1, 300_000)


@given(sizes, st.integers(1, 300))
def test_matmuls_cover_rows_and_tokens(num_rows, num_tokens):
    """No row or token is left out, and the last thread block of each kind has something to do."""
    shape = matmul_shape(num_rows, num_tokens)
    tiles, blocks, _ = matmul_grid(shape, num_rows, num_tokens)
    assert (tiles - 1) * shape.tokens < num_tokens <= tiles * shape.tokens
    rows = GROUPS * shape.rows
    assert (blocks - 1) * rows < num_rows <= blocks * rows


@given(sizes)
def test_gate_and_up_stay_together(num_rows):
    """Groups own an even number of rows, so that a pair is never parted."""
    for num_tokens in range(1, 10):
        assert matmul_shape(num_rows, num_tokens).rows % 2 == 0


def test_narrowest_shape_that_fits():
    """Decodes of 1 to 8 sequences waste less than half of a tile."""
    tokens = [matmul_shape(10_000, n).tokens for n in (1, 2, 3, 4, 5, 8, 9, 128)]
    assert tokens == [1, 2, 4, 4, 8, 8, 16, 16]


def test_few_rows_on_many_groups():
    """A matrix of few rows is spread wider when one token alone reads it."""
    assert matmul_shape(640, 1) is MATMULS[0]
    assert matmul_shape(4096, 1) is MATMULS[1]


@given(st.integers(1, 64))
def test_heads_are_cut_evenly(group):
    parts = head_parts(group)
    assert group % parts == 0
    assert group // parts <= MAX_GROUP


@given(st.integers(1, 300_000))
def test_runs(max_len):
    """Few enough runs for the scratch of partial results, each of whole tiles."""
    run = run_len(max_len)
    assert run % 128 == 0
    assert run >= 256
    assert num_runs(max_len, run) <= 16
