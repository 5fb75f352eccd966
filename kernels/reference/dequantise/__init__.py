"""Expansion of quantised rows to float32, the definition every kernel is tested against.

Owns the table from format names to expanders; each takes blocks (num_blocks, block_bytes) uint8 and
gives (num_blocks, block_len) float32. Knows nothing about files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.dequantise import blocks32, floats, four_bit_tables, superblocks
from kernels.specs.quants import QUANTS

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

DEQUANTISERS: dict[str, Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]] = {
    "F32": floats.f32,
    "F16": floats.f16,
    "BF16": floats.bf16,
    "Q4_0": blocks32.q4_0,
    "Q4_1": blocks32.q4_1,
    "Q5_0": blocks32.q5_0,
    "Q5_1": blocks32.q5_1,
    "Q8_0": blocks32.q8_0,
    "Q2_K": superblocks.q2_k,
    "Q3_K": superblocks.q3_k,
    "Q4_K": superblocks.q4_k,
    "Q5_K": superblocks.q5_k,
    "Q6_K": superblocks.q6_k,
    "IQ4_NL": four_bit_tables.iq4_nl,
    "IQ4_XS": four_bit_tables.iq4_xs,
}


def dequantise(
    quant: str, data: npt.NDArray[np.uint8], num_rows: int, k: int
) -> npt.NDArray[np.float32]:
    """Rows as float32.

    Shapes: data num_rows * row_bytes uint8 -> (num_rows, k) f32. Bit for bit what ggml's `to_float`
    gives. Raises: KeyError for a format that is not in DEQUANTISERS.
    """
    expand = DEQUANTISERS[quant]
    blocks = data.reshape(-1, QUANTS[quant].block_bytes)
    return np.ascontiguousarray(expand(blocks)).reshape(num_rows, k)
