"""Weights become packed parts: in which format, in which order, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kernels.cpu.convert import CONVERTED
from kernels.cpu.errors import UnsupportedWeight
from kernels.cpu.pack import can_gate, compile_repacking, pack_gated, pack_weight, packed_format
from kernels.reference.dequantise import dequantise
from kernels.specs.tensor import Part, Tensor, Weight
from tests.kernels.cpu.calls import Heap, Inline, embedded, random_tensor, weight_of


def values_of(tensor):
    return dequantise(tensor.quant, tensor.data, *tensor.shape)


@pytest.mark.parametrize("quant", sorted(CONVERTED))
def test_conversion(quant):
    """A format without kernels is kept with 8 bits for every 32 values."""
    tensor = random_tensor(quant, 21, 512)
    (part,) = pack_weight(weight_of(tensor), Heap(), Inline())
    values = values_of(tensor)
    step = np.abs(values.reshape(21, 16, 32)).max(-1) / 127
    error = np.abs(embedded(part, range(21)) - values).reshape(21, 16, 32).max(-1)
    assert part.format.name == "Q8_F"
    assert (error <= 0.5001 * step).all()
    assert error.max() > 0


def test_conversion_of_zeros():
    """A block of zeros has no scale and stays zero."""
    tensor = Tensor("w", "IQ4_NL", (16, 32), np.zeros(16 * 18, np.uint8))
    (part,) = pack_weight(weight_of(tensor), Heap(), Inline())
    np.testing.assert_array_equal(embedded(part, range(16)), np.zeros((16, 32)))


def test_neighbours_share_a_part():
    """Parts that are computed in one format are one packed part, converted ones among them."""
    tensors = [random_tensor("Q3_K", 5, 256), random_tensor("IQ4_XS", 20, 256)]
    (part,) = pack_weight(weight_of(*tensors), Heap(), Inline())
    expected = np.concatenate([values_of(tensor) for tensor in tensors])
    assert part.num_rows == 25
    np.testing.assert_allclose(
        embedded(part, range(25)), expected, atol=np.abs(expected).max() / 250
    )


def test_row_order_of_converted_rows():
    """Converted rows come in the order asked for too."""
    tensor, order = random_tensor("Q2_K", 40, 256), np.random.default_rng(0).permutation(40)
    ordered, plain = (
        pack_weight(weight_of(tensor, row_order=o), Heap(), Inline())[0] for o in (order, None)
    )
    np.testing.assert_array_equal(embedded(ordered, range(40)), embedded(plain, order))


def test_gate_and_up_alternate():
    """Groups of 16 rows of gate and of up come in turns."""
    gate, up = random_tensor("Q8_0", 32, 64, 1), random_tensor("Q8_0", 32, 64, 2)
    part = pack_gated(weight_of(gate), weight_of(up), Heap(), Inline())
    g, u = values_of(gate), values_of(up)
    expected = np.concatenate([g[:16], u[:16], g[16:], u[16:]])
    np.testing.assert_array_equal(embedded(part, range(64)), expected)


def test_pool():
    """Many tasks on several threads fill every group exactly as one thread does."""
    tensor = random_tensor("Q4_K", 2000, 2048)
    (alone,) = pack_weight(weight_of(tensor), Heap(), Inline())
    with ThreadPoolExecutor(3) as pool:
        (shared,) = pack_weight(weight_of(tensor), Heap(), pool)
    np.testing.assert_array_equal(shared.data, alone.data)


@pytest.mark.parametrize(
    ("gate", "up"),
    [
        ([("Q8_0", 32)], [("Q4_0", 32)]),
        ([("Q8_0", 32)], [("Q8_0", 48)]),
        ([("Q8_0", 24)], [("Q8_0", 24)]),
    ],
)
def test_unlike_gate_and_up(gate, up):
    """Two formats, two sizes or broken groups cannot alternate."""
    weights = [
        weight_of(*(random_tensor(quant, rows, 64) for quant, rows in parts))
        for parts in (gate, up)
    ]
    assert not can_gate(*weights)
    with pytest.raises(UnsupportedWeight, match="no format and size"):
        pack_gated(*weights, Heap(), Inline())


def test_unknown_format():
    """A format that nothing expands is refused by name, before any memory is taken."""
    weight = Weight(
        "blk.0.ffn_up", (Part(Tensor("t", "IQ1_S", (16, 256), np.zeros(800, np.uint8))),)
    )
    assert packed_format("IQ1_S") is None
    for refused in (
        lambda: compile_repacking([weight]),
        lambda: pack_weight(weight, None, Inline()),
    ):
        with pytest.raises(UnsupportedWeight, match=r"blk\.0\.ffn_up.*IQ1_S"):
            refused()


def test_format_change_inside_a_group():
    """Where the format changes a group of 16 columns must be full."""
    tensors = [random_tensor("Q8_0", 24, 64), random_tensor("Q4_0", 16, 64)]
    with pytest.raises(UnsupportedWeight, match="row 24"):
        pack_weight(weight_of(*tensors), Heap(), Inline())


def test_odd_width():
    """Float rows are taken 16 values at a time."""
    tensor = Tensor("t", "F32", (16, 24), np.zeros(16 * 96, np.uint8))
    with pytest.raises(UnsupportedWeight, match="multiple of 16"):
        pack_weight(weight_of(tensor), Heap(), Inline())
