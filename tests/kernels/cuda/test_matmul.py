"""matmul.cu: every format and width against the reference, its endings, and the same bits at any width."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.catalogue import MATMULS, matmul
from kernels.cuda.launches import matmul_grid
from kernels.reference.dequantise import DEQUANTISERS, dequantise
from kernels.reference.gated import gated
from kernels.reference.rms_norm import rms_norm
from tests.kernels.cpu.calls import random_tensor
from tests.kernels.cuda.bench import frozen, planes_of

EPS = 1e-5
BY_NAME = {shape.entry: shape for shape in MATMULS}


def rows_of(n, k, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


def multiplied(
    bench, tensor, x, shape=None, *, gain=None, residual=None, activation=0, x_rows=None
):
    """Shapes: x (N, k) -> (N, num_rows), or half as many columns where activated."""
    shape = shape or BY_NAME["matmul_8"]
    num_rows, k = tensor.shape
    name, planes = planes_of(tensor)
    num_tokens = len(x) if x_rows is None else len(x_rows)
    y = np.full((num_tokens, num_rows // 2 if activation else num_rows), np.nan, np.float32)
    bench.call(
        matmul(name, shape),
        matmul_grid(shape, num_rows, num_tokens),
        *planes,
        frozen(x, np.float32),
        x_rows,
        gain,
        residual,
        y,
        num_rows,
        k,
        num_tokens,
        x.shape[1],
        y.shape[1],
        activation,
        EPS,
    )
    return y


def values_of(tensor):
    return dequantise(tensor.quant, tensor.data, *tensor.shape).astype(np.float64)


def assert_close(got, expected, scale):
    """Within 1e-5 of what a row's products could add up to."""
    assert np.abs(got - expected).max() <= 1e-5 * scale


@pytest.mark.parametrize("quant", sorted(DEQUANTISERS))
def test_every_format(bench, quant):
    """Each width, with a last row group and a last tile of tokens that are not full."""
    tensor, x = random_tensor(quant, 70, 512), rows_of(11, 512)
    expected = x.astype(np.float64) @ values_of(tensor).T
    scale = np.sqrt(512) * np.abs(values_of(tensor)).mean()
    first = None
    for shape in MATMULS:
        y = multiplied(bench, tensor, x, shape)
        assert_close(y, expected, scale)
        first = y if first is None else first
        np.testing.assert_array_equal(y, first, err_msg=shape.entry)


@pytest.mark.parametrize("k", [32, 288, 320])
def test_passes_that_are_not_full(bench, k):
    """A row may end within a pass of 256 values."""
    tensor, x = random_tensor("Q8_0", 9, k), rows_of(3, k)
    y = multiplied(bench, tensor, x, BY_NAME["matmul_4"])
    assert_close(
        y, x.astype(np.float64) @ values_of(tensor).T, np.abs(values_of(tensor)).sum(1).max()
    )


@pytest.mark.parametrize("entry", sorted(BY_NAME))
def test_norm_folded_in(bench, entry):
    """With a gain the input's rows are normalised first; bits are the same at any width."""
    tensor, x, gain = (
        random_tensor("Q4_K", 20, 512),
        rows_of(9, 512),
        frozen(rows_of(1, 512)[0], "f4"),
    )
    y = multiplied(bench, tensor, x, BY_NAME[entry], gain=gain)
    expected = rms_norm(x, gain, EPS).astype(np.float64) @ values_of(tensor).T
    assert_close(y, expected, np.sqrt(512) * np.abs(values_of(tensor)).mean())
    np.testing.assert_array_equal(y, multiplied(bench, tensor, x, gain=gain))


def test_residual(bench):
    """y = W x + residual; the residual may be what y overwrites."""
    tensor, x = random_tensor("Q6_K", 33, 256), rows_of(5, 256)
    residual = frozen(rows_of(5, 33, 1), "f4")
    plain = multiplied(bench, tensor, x)
    np.testing.assert_array_equal(multiplied(bench, tensor, x, residual=residual), plain + residual)


@pytest.mark.parametrize(("activation", "kind"), [(1, "silu"), (2, "gelu")])
def test_gate_and_up(bench, activation, kind):
    """Rows alternate between gate and up."""
    tensor, x = random_tensor("Q4_0", 36, 64), rows_of(5, 64) / 8
    both = multiplied(bench, tensor, x)
    for entry in ("matmul_narrow", "matmul_8"):
        y = multiplied(bench, tensor, x[:1], BY_NAME[entry], activation=activation)
        expected = gated(both[:1, 0::2], both[:1, 1::2], kind)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_chosen_rows(bench):
    """Only some rows of x, in the order asked for."""
    tensor, x = random_tensor("F16", 10, 64), rows_of(6, 64)
    chosen = frozen([4, 0, 5], np.int32)
    y = multiplied(bench, tensor, x, x_rows=chosen)
    np.testing.assert_array_equal(y, multiplied(bench, tensor, x)[chosen])
