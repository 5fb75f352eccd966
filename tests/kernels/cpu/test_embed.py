"""Rows come back out of packed weights with the bits that the file's own expansion has."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cpu.formats import FORMATS
from kernels.cpu.pack import pack_weight
from kernels.reference.dequantise import dequantise
from tests.kernels.cpu.calls import Heap, Inline, embedded, random_tensor, weight_of


def packed(tensor, row_order=None):
    (part,) = pack_weight(weight_of(tensor, row_order=row_order), Heap(), Inline())
    return part


@pytest.mark.parametrize("quant", FORMATS)
def test_every_row_and_value(quant):
    """All rows of a table whose length is no multiple of 16, bit for bit."""
    tensor = random_tensor(quant, 37, 512)
    values = dequantise(quant, tensor.data, 37, 512)
    rows = embedded(packed(tensor), range(37))
    np.testing.assert_array_equal(rows.view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("quant", ["Q4_0", "Q5_1", "F16"])
def test_narrow_rows(quant):
    """A row need not fill a superblock: 96 values are three quant blocks."""
    tensor = random_tensor(quant, 16, 96)
    np.testing.assert_array_equal(
        embedded(packed(tensor), [3, 3, 15]), dequantise(quant, tensor.data, 16, 96)[[3, 3, 15]]
    )


@pytest.mark.parametrize("quant", ["Q4_1", "Q6_K"])
def test_scale(quant):
    """The scale multiplies the finished value in float32."""
    tensor, scale = random_tensor(quant, 16, 256), 640**0.5
    values = dequantise(quant, tensor.data, 16, 256) * np.float32(scale)
    np.testing.assert_array_equal(embedded(packed(tensor), range(16), scale), values)


def test_row_order():
    """Rows are packed in the order asked for, repeated or left out as it says."""
    tensor, order = random_tensor("Q8_0", 20, 64), np.array([19, 0, 7, 7, 3])
    rows = embedded(packed(tensor, order), range(5))
    np.testing.assert_array_equal(rows, dequantise("Q8_0", tensor.data, 20, 64)[order])


@pytest.mark.parametrize("quant", FORMATS)
def test_padding_is_zero(quant):
    """Rows that fill up the last group are zeros."""
    part = packed(random_tensor(quant, 17, 256))
    assert part.num_columns == 32
    np.testing.assert_array_equal(embedded(part, range(17, 32)), np.zeros((15, 256)))
