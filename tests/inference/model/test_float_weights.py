"""Float matrices of a file as Q8_0: the right bytes, read in any pieces, and nothing else touched (D13)."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from inference.model import float_weights
from inference.model.float_weights import q8_0, quantise_floats
from kernels.reference.dequantise import dequantise
from kernels.specs.tensor import Tensor

ROWS, K = 7, 96


def values(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = (rng.standard_normal((ROWS, K)) * rng.uniform(1e-3, 10, (ROWS, 1))).astype(np.float32)
    made[2, :32] = 0
    return made


def tensor(quant: str, made: np.ndarray) -> Tensor:
    kind = gguf.GGMLQuantizationType[quant]
    data = gguf.quants.quantize(made, kind).view(np.uint8).reshape(-1)
    return Tensor("w", quant, made.shape, data)


def test_the_bytes_are_those_of_the_format_s_own_tool() -> None:
    expected = gguf.quants.quantize(values(), gguf.GGMLQuantizationType.Q8_0)
    assert np.array_equal(q8_0(values()), expected.reshape(-1))


@pytest.mark.parametrize("quant", ["F32", "F16", "BF16"])
def test_float_matrices_become_q8_0(quant) -> None:
    stored = tensor(quant, values())
    (made,) = quantise_floats({"w": stored}).values()
    assert (made.quant, made.shape, made.num_bytes) == ("Q8_0", (ROWS, K), ROWS * K // 32 * 34)
    exact = dequantise(quant, stored.data, ROWS, K)
    near = dequantise("Q8_0", made.data, ROWS, K)
    largest = np.abs(exact.reshape(-1, 32)).max(axis=1, keepdims=True)
    error = np.abs((near - exact).reshape(-1, 32))
    assert (error <= largest * (0.5 / 127 + 1e-3)).all()


def test_any_piece_reads_the_same(monkeypatch) -> None:
    monkeypatch.setattr(float_weights, "_VALUES_AT_ONCE", 2 * K)
    (made,) = quantise_floats({"w": tensor("F16", values())}).values()
    whole = made.data
    for begin in range(0, len(whole), 37):
        for end in (begin, begin + 1, begin + 150, len(whole)):
            assert np.array_equal(made.read(begin, min(end, len(whole))), whole[begin:end])


def test_what_is_not_a_float_matrix_stays() -> None:
    tensors = {
        "quantised": tensor("Q4_0", values()),
        "vector": Tensor("v", "F32", (K,), np.zeros(4 * K, np.uint8)),
        "odd rows": Tensor("o", "F32", (2, 33), np.zeros(4 * 66, np.uint8)),
    }
    assert quantise_floats(tensors) == tensors


def test_a_matrix_of_zeros_stays_zero() -> None:
    assert not dequantise("Q8_0", q8_0(np.zeros((2, 64), np.float32)), 2, 64).any()
