"""Every quant format expands as ggml does, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from kernels.reference.dequantise import DEQUANTISERS, dequantise
from kernels.specs.quants import QUANTS, row_bytes

STORED = sorted(set(DEQUANTISERS) - {"F32"})


@pytest.fixture(scope="module")
def quants(golden):
    with np.load(golden / "quants" / "quants.npz") as data:
        yield data


@pytest.mark.parametrize("quant", STORED)
def test_stored_rows(quants, quant):
    """Rows that ggml quantised come out with the bits that its own expansion has."""
    values = dequantise(quant, quants[f"{quant}/raw"], 4, 512)
    np.testing.assert_array_equal(
        values.view(np.uint32), quants[f"{quant}/deq_gguf"].view(np.uint32)
    )


@pytest.mark.parametrize("quant", sorted(DEQUANTISERS))
def test_arbitrary_bytes(quant):
    """Bytes that no quantiser would write (extreme scales, infinities) expand as in the gguf package."""
    rng = np.random.default_rng(7)
    raw = rng.integers(0, 256, (32, row_bytes(quant, 512)), dtype=np.uint8)
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[quant])
        values = dequantise(quant, raw, 32, 512)
    np.testing.assert_array_equal(values, wanted)


@pytest.mark.parametrize("quant", sorted(DEQUANTISERS))
def test_it_gives_the_rows_asked_for(quant):
    """Shape and type, also where the data are a flat read-only view."""
    raw = np.zeros(3 * row_bytes(quant, 256), dtype=np.uint8)
    raw.flags.writeable = False
    values = dequantise(quant, raw, 3, 256)
    assert values.shape == (3, 256)
    assert values.dtype == np.float32
    assert values.flags.c_contiguous


def test_a_block_by_hand():
    """Q4_0: d = 0.5, byte 0 = 0x1f gives value 0 = (15 - 8) / 2 and value 16 = (1 - 8) / 2."""
    block = np.zeros(QUANTS["Q4_0"].block_bytes, dtype=np.uint8)
    block[:2] = np.array([0.5], np.float16).view(np.uint8)
    block[2] = 0x1F
    values = dequantise("Q4_0", block, 1, 32)[0]
    assert values[0] == 3.5
    assert values[16] == -3.5
    assert values[1] == -4.0


def test_an_unknown_format():
    """A format without a definition is a KeyError, which backends turn into a refusal beforehand."""
    with pytest.raises(KeyError):
        dequantise("IQ1_S", np.zeros(50, np.uint8), 1, 256)
