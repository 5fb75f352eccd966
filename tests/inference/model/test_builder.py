"""The recorder refuses ops whose sizes do not fit, and numbers layers and buffers in order."""

from __future__ import annotations

import numpy as np
import pytest

from inference.model.builder import Builder
from inference.model.errors import ModelError
from kernels.specs.program import Rows
from kernels.specs.tensor import Part, Tensor, Vector, Weight


def _matrix(name, rows, k):
    return Weight(name, (Part(Tensor(name, "F32", (rows, k), np.zeros(rows * k * 4, np.uint8))),))


def _vector(name, n):
    return Vector(name, np.ones(n, np.float32))


@pytest.fixture
def started():
    b = Builder()
    return b, b.embed(_matrix("table", 5, 8))


def test_it_works(started):
    """Every op makes a buffer of its own; logits have as many rows as want them."""
    b, x = started
    y = b.matmul(b.take_logit_rows(b.rms_norm(x, _vector("g", 8), 1e-5)), _matrix("out", 5, 8))
    program = b.finish(y)
    assert [op.output.index for op in program.ops] == [0, 1, 2, 3]
    assert [op.output.rows for op in program.ops] == [Rows.STEP] * 2 + [Rows.LOGITS] * 2
    assert (program.logits, program.vocab_size) == (y, 5)


def test_each_attention_is_a_layer(started):
    """With KV pages of its own, and 1 / sqrt(head_dim) where no scale is given."""
    b, x = started
    kv = b.matmul(x, _matrix("k", 4, 8))
    y = b.attention(x, kv, kv, head_dim=4)
    b.attention(y, kv, kv, head_dim=4, scale=2.0, window=3)
    first, second = (op.attrs for op in b.finish(y).ops[2:])
    assert (first["layer"], first["scale"], first["window"]) == (0, 0.5, 0)
    assert (second["layer"], second["scale"], second["window"]) == (1, 2.0, 3)
    assert (first["num_heads"], first["num_kv_heads"]) == (2, 1)


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("g", lambda b, x: b.rms_norm(x, _vector("g", 7), 1e-5)),
        ("w", lambda b, x: b.matmul(x, _matrix("w", 8, 7))),
        ("b", lambda b, x: b.add_bias(x, _vector("b", 7))),
        ("h", lambda b, x: b.head_rms_norm(x, _vector("h", 3), 1e-5)),
        ("add", lambda b, x: b.add(x, b.matmul(x, _matrix("w", 7, 8)))),
        ("gated", lambda b, x: b.gated(x, b.matmul(x, _matrix("w", 7, 8)), "silu")),
    ],
)
def test_sizes_that_do_not_fit_are_named(started, what, call):
    with pytest.raises(ModelError) as caught:
        call(*started)
    assert caught.value.field == what
