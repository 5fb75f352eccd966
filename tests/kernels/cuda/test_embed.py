"""embed.cu: rows of tables of every format."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.catalogue import embed
from kernels.cuda.launches import embed_grid
from kernels.reference.dequantise import DEQUANTISERS, dequantise
from tests.kernels.cpu.calls import random_tensor
from tests.kernels.cuda.bench import frozen, planes_of

TOKENS = [3, 0, 49, 3]


@pytest.mark.parametrize("quant", sorted(DEQUANTISERS))
def test_every_format(bench, quant):
    """y = scale * W[token], within the rounding of one value, for more blocks than a thread block has."""
    k = 2304
    tensor = random_tensor(quant, 50, k)
    name, planes = planes_of(tensor)
    y = np.full((len(TOKENS), k), np.nan, np.float32)
    tokens = frozen(TOKENS, np.int32)
    bench.call(embed(name), embed_grid(k, len(TOKENS)), *planes, tokens, y, k, k, 1.5)
    expected = dequantise(quant, tensor.data, 50, k)[TOKENS] * np.float32(1.5)
    np.testing.assert_allclose(y, expected, rtol=3e-6, atol=2e-6 * np.abs(expected).max())
