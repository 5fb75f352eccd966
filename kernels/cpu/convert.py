"""Formats without kernels of their own -> Q8_F: expanded to float32, then 8 bits for every 32 values.

Owns that conversion, in the form of a file's rows, so that repacking sees no difference. Knows no
memory: callers convert few rows at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernels.cpu.formats import FORMATS
from kernels.reference.dequantise import DEQUANTISERS, dequantise

_BLOCK = np.dtype([("d", "<f4"), ("q", "i1", (32,))])
TARGET = FORMATS["Q8_F"]
CONVERTED = frozenset(DEQUANTISERS) - frozenset(FORMATS)


def to_q8_f(quant: str, data: npt.NDArray[np.uint8], num_rows: int, k: int) -> npt.NDArray[np.void]:
    """Rows of `quant` as Q8_F blocks, d = max|value| / 127.

    Shapes: data num_rows * row_bytes uint8 -> (num_rows, k / 32) blocks of 36 bytes. An error of up to
    d / 2 a value. Raises: KeyError for a format that is not in CONVERTED.
    """
    values = dequantise(quant, data, num_rows, k).reshape(num_rows, k // 32, 32)
    blocks = np.zeros((num_rows, k // 32), _BLOCK)
    blocks["d"] = np.abs(values).max(-1) / np.float32(127)
    inverse = np.divide(1, blocks["d"], out=np.zeros_like(blocks["d"]), where=blocks["d"] > 0)
    blocks["q"] = np.rint(values * inverse[..., None])
    return blocks
