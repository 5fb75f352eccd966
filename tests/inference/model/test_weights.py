"""Tensors become weights by name and shape, and are refused otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from inference.model.errors import ModelError
from inference.model.weights import Weights, half_split_order
from kernels.specs.tensor import Tensor


def _tensor(name, values):
    values = np.asarray(values, np.float32)
    return Tensor(name, "F32", values.shape, values.reshape(-1).view(np.uint8))


def _weights(**tensors):
    named = {name.replace("__", "."): values for name, values in tensors.items()}
    return Weights({name: _tensor(name, values) for name, values in named.items()})


def test_it_works():
    """Matrices keep their bytes; vectors are expanded."""
    w = _weights(blk__0__attn_q__weight=np.ones((4, 3)), blk__0__attn_norm__weight=[1, 2, 3])
    matrix = w.layer(0).matrix("attn_q", 4, 3)
    assert (matrix.num_rows, matrix.k, tuple(matrix.quants)) == (4, 3, ("F32",))
    assert w.layer(0).vector("attn_norm", 3).values.tolist() == [1, 2, 3]
    assert w.names_unread() == []


def test_a_matrix_asked_for_twice_is_one_object():
    """So that a tied embedding is stored once."""
    w = _weights(token_embd__weight=np.ones((4, 3)))
    table = w.matrix("token_embd", 4, 3)
    assert w.matrix("token_embd", 4, 3) is table
    assert w.output(table) is table


def test_an_output_of_its_own():
    w = _weights(token_embd__weight=np.ones((4, 3)), output__weight=np.zeros((4, 3)))
    assert w.output(w.matrix("token_embd", 4, 3)).name == "output"


def test_missing_tensors_are_named():
    w = _weights(token_embd__weight=np.ones((4, 3)))
    with pytest.raises(ModelError) as caught:
        w.layer(7).matrix("ffn_up", 4, 3)
    assert caught.value.field == "blk.7.ffn_up.weight"
    with pytest.raises(ModelError) as caught:
        w.layer(7).bias("attn_q", 4)
    assert caught.value.field == "blk.7.attn_q.bias"
    assert w.optional_vector("rope_freqs", 4) is None


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (12,), (4, 3, 1)])
def test_other_shapes_are_refused(shape):
    """The message gives both shapes, also where the matrix was asked for before."""
    w = _weights(a__weight=np.ones((4, 3)), b__weight=np.ones(shape))
    with pytest.raises(ModelError, match=r"has shape .* where the model needs \(4, 3\)"):
        w.matrix("b", 4, 3)
    w.matrix("a", 4, 3)
    with pytest.raises(ModelError):
        w.matrix("a", *shape[:2]) if len(shape) == 2 else w.matrix("a", 4, 12)


def test_vectors_must_be_finite_and_readable():
    w = Weights(
        {
            "a.weight": _tensor("a.weight", [1, np.nan]),
            "b.weight": Tensor("b.weight", "IQ1_S", (256,), np.zeros(50, np.uint8)),
        }
    )
    with pytest.raises(ModelError, match="not finite"):
        w.vector("a", 2)
    with pytest.raises(ModelError, match="IQ1_S"):
        w.vector("b", 256)


def test_unread_tensors_are_listed():
    w = _weights(a__weight=np.ones((4, 3)), b__weight=[1, 2])
    w.matrix("a", 4, 3)
    assert w.names_unread() == ["b.weight"]


def test_pairs_take_rows_in_half_split_order():
    """Neighbouring pairs (0, 1), (2, 3) of each head become (0, 2), (1, 3)."""
    assert half_split_order(8, 4).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    w = _weights(q__weight=np.ones((8, 3)))
    order = w.matrix("q", 8, 3, pairs=4).parts[0].row_order
    assert order is not None
    assert order.tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
