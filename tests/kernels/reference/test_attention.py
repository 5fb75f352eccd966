"""attention over scattered pages equals causal softmax attention over whole sequences."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.reference.attention import LayerPages, Rows, attention
from kernels.reference.attention_qkv import attention_qkv
from kernels.specs.tensor import RopeTable

PAGE_LEN, HEADS, KV_HEADS, DIM = 4, 4, 2, 8


def _pages(num_pages=8, dtype=np.float32):
    shape = (num_pages, PAGE_LEN, KV_HEADS, DIM)
    return LayerPages(np.zeros(shape, dtype), np.zeros(shape, dtype))


def _inputs(num_rows, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal((num_rows, heads * DIM)).astype(np.float32)
        for heads in (HEADS, KV_HEADS, KV_HEADS)
    ]


def _dense(q, k, v, scale, window=0):
    """One sequence from position 0, in float64, one loop for each index of the definition."""
    y = np.zeros(q.shape)
    for row in range(len(q)):
        first = max(0, row - window + 1) if window else 0
        for head in range(HEADS):
            at = slice(head // (HEADS // KV_HEADS) * DIM, (head // (HEADS // KV_HEADS) + 1) * DIM)
            out = slice(head * DIM, (head + 1) * DIM)
            scores = np.array(
                [scale * q[row, out] @ k[j, at].astype(float) for j in range(first, row + 1)]
            )
            weights = np.exp(scores - scores.max())
            y[row, out] = weights / weights.sum() @ v[first : row + 1, at]
    return y


def _rows(positions, slots, table):
    return Rows(np.array(positions, np.int32), np.array(slots, np.int32), np.array(table, np.int32))


@pytest.mark.parametrize("window", [0, 1, 3, 5, 100])
def test_one_sequence(window):
    """Heads share keys and values by groups; a window hides older positions."""
    q, k, v = _inputs(11)
    y = attention(q, k, v, _rows(range(11), [0] * 11, [[6, 1, 3]]), _pages(), 0.3, window)
    np.testing.assert_allclose(y, _dense(q, k, v, 0.3, window), atol=2e-6)


def test_steps_continue_a_sequence():
    """Rows in three steps see what earlier steps appended, bit for bit as in one step."""
    q, k, v = _inputs(11)
    whole = attention(q, k, v, _rows(range(11), [0] * 11, [[6, 1, 3]]), _pages(), 0.3)
    pages, parts = _pages(), []
    for at in (slice(0, 5), slice(5, 6), slice(6, 11)):
        positions = range(11)[at]
        rows = _rows(positions, [0] * len(positions), [[6, 1, 3]])
        parts.append(attention(q[at], k[at], v[at], rows, pages, 0.3))
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_slots_do_not_see_each_other():
    """Two sequences in one step, each in its own pages, give what they give alone."""
    q, k, v = _inputs(9)
    rows = _rows([*range(5), *range(4)], [0] * 5 + [1] * 4, [[2, 5], [7, -1]])
    y = attention(q, k, v, rows, _pages(), 0.3)
    np.testing.assert_allclose(y[:5], _dense(q[:5], k[:5], v[:5], 0.3), atol=2e-6)
    np.testing.assert_allclose(y[5:], _dense(q[5:], k[5:], v[5:], 0.3), atol=2e-6)


def test_half_pages_round_keys_and_values():
    """With f16 pages the result is that of rounded keys and values, queries staying float32."""
    q, k, v = _inputs(6)
    y = attention(q, k, v, _rows(range(6), [0] * 6, [[0, 1]]), _pages(dtype=np.float16), 0.3)
    rounded = [x.astype(np.float16).astype(np.float32) for x in (k, v)]
    np.testing.assert_allclose(y, _dense(q, *rounded, 0.3), atol=2e-6)
    assert np.abs(y - _dense(q, k, v, 0.3)).max() > 1e-5


def test_large_scores_do_not_overflow():
    """Scores far beyond exp's range pick the largest key."""
    q, k, v = _inputs(3)
    y = attention(q * 1000, k * 1000, v, _rows(range(3), [0] * 3, [[0]]), _pages(), 1.0)
    assert np.isfinite(y).all()


def test_qkv_splits_in_order():
    """attention_qkv of zero angles and no norms is attention of x's three parts plus their bias."""
    q, k, v = _inputs(6)
    bias = np.linspace(-1, 1, (HEADS + 2 * KV_HEADS) * DIM).astype(np.float32)
    rows = _rows(range(6), [0] * 6, [[0, 1]])
    y = attention_qkv(
        np.concatenate([q, k, v], axis=1) - bias,
        rows,
        _pages(),
        table=RopeTable(np.zeros(DIM // 2)),
        scale=0.3,
        window=0,
        eps=0.0,
        bias=bias,
        q_gain=None,
        k_gain=None,
    )
    np.testing.assert_allclose(y, _dense(q, k, v, 0.3), atol=3e-6)
