"""Weights are grouped by format, packed a few rows at a time, and end up as if packed all at once."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cuda import weights
from accel.cuda.weights import alternating_rows, packed_rows
from accel.errors import UnsupportedProgram
from kernels.cuda.pack import pack
from kernels.specs.quants import row_bytes
from kernels.specs.tensor import Part, Tensor, Weight
from tests.kernels.cpu.calls import random_tensor, weight_of

ADDRESS = 1 << 20


def uploaded(rows):
    """The planes as they lie on a die, None where there is none."""
    memory = np.full(rows.area.num_bytes, 0xAA, np.uint8)

    def send(address, data):
        memory[address - ADDRESS : address - ADDRESS + data.nbytes] = data

    rows.upload(ADDRESS, send)
    sizes = rows.fmt.plane_bytes(rows.num_rows * rows.k // 32)
    return [
        None if at is None else memory[at.offset : at.offset + size]
        for at, size in zip(rows.planes, sizes, strict=True)
    ]


def raw_rows(tensor):
    return tensor.data.reshape(tensor.shape[0], row_bytes(tensor.quant, tensor.shape[1]))


def assert_planes(rows, quant, raw):
    for got, expected in zip(uploaded(rows), pack(quant, raw), strict=True):
        if expected is None:
            assert got is None
        else:
            np.testing.assert_array_equal(got, expected)


@pytest.fixture(params=[64, 4 << 20], ids=["row by row", "all at once"])
def _chunks(request, monkeypatch):
    monkeypatch.setattr(weights, "_CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize("quant", ["Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "F16"])
def test_neighbours_of_one_format(quant):
    tensors = [random_tensor(quant, 5, 256, 1), random_tensor(quant, 20, 256, 2)]
    (rows,) = packed_rows(weight_of(*tensors))
    assert (rows.num_rows, rows.first_column) == (25, 0)
    assert_planes(rows, quant, np.concatenate([raw_rows(tensor) for tensor in tensors]))


@pytest.mark.usefixtures("_chunks")
def test_rows_out_of_order():
    """Rows of heads in half-split order."""
    order = np.arange(24).reshape(-1, 4, 2).swapaxes(1, 2).reshape(-1)
    tensor = random_tensor("Q4_0", 24, 64)
    (rows,) = packed_rows(weight_of(tensor, row_order=order))
    assert_planes(rows, "Q4_0", raw_rows(tensor)[order])


@pytest.mark.usefixtures("_chunks")
def test_gate_and_up_alternate():
    gate, up = random_tensor("Q5_K", 6, 256, 1), random_tensor("Q5_K", 6, 256, 2)
    rows = alternating_rows(weight_of(gate), weight_of(up))
    raw = np.stack([raw_rows(gate), raw_rows(up)], axis=1).reshape(12, -1)
    assert rows.num_rows == 12
    assert_planes(rows, "Q5_K", raw)


def test_formats_side_by_side():
    """A change of format starts a group whose results go to its own columns."""
    tensors = [random_tensor(q, n, 256) for q, n in (("Q4_K", 7), ("Q4_K", 2), ("Q6_K", 3))]
    groups = packed_rows(weight_of(*tensors))
    assert [(g.fmt.name, g.num_rows, g.first_column) for g in groups] == [
        ("Q4_K", 9, 0),
        ("Q6_K", 3, 9),
    ]


@pytest.mark.parametrize(("gate", "up"), [(("Q8_0", 8), ("Q4_0", 8)), (("Q8_0", 8), ("Q8_0", 10))])
def test_unlike_gate_and_up(gate, up):
    pair = [weight_of(random_tensor(quant, rows, 64)) for quant, rows in (gate, up)]
    assert alternating_rows(*pair) is None


def test_unknown_format():
    tensor = Tensor("t", "IQ1_S", (16, 256), np.zeros(800, np.uint8))
    with pytest.raises(UnsupportedProgram, match=r"blk\.0\.ffn_up stored as IQ1_S"):
        packed_rows(Weight("blk.0.ffn_up", (Part(tensor),)))
