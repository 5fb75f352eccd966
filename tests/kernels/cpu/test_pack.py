"""Weights become packed parts: in which format, in which order, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kernels.cpu.errors import UnsupportedWeight
from kernels.cpu.formats import FORMATS
from kernels.cpu.pack import can_gate, compile_repacking, pack_gated, pack_weight
from kernels.reference.dequantise import DEQUANTISERS, dequantise
from kernels.specs.quants import row_bytes
from kernels.specs.tensor import Part, Tensor, Weight
from tests.kernels.cpu.calls import Heap, Inline, embedded, random_tensor, weight_of


def values_of(tensor):
    return dequantise(tensor.quant, tensor.data, *tensor.shape)


def test_neighbours_share_a_part():
    """Neighbouring parts of one format are one packed part, whatever their sizes."""
    tensors = [random_tensor("Q3_K", 5, 256, 1), random_tensor("Q3_K", 20, 256, 2)]
    (part,) = pack_weight(weight_of(*tensors), Heap(), Inline())
    assert part.num_rows == 25
    expected = np.concatenate([values_of(tensor) for tensor in tensors])
    np.testing.assert_array_equal(embedded(part, range(25)), expected)


def test_everything_that_can_be_expanded():
    """The reference and the kernels know the same formats, at the file's block sizes."""
    assert set(FORMATS) == set(DEQUANTISERS)
    for name, fmt in FORMATS.items():
        assert row_bytes(name, fmt.block_len) == fmt.file_bytes
        assert fmt.packed_bytes <= 1.15 * 16 * fmt.file_bytes


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
