"""Bit fields of quant blocks. Owns how 4-bit, 5-bit and half-float fields are laid out in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def half(field: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """(n, 2) bytes -> (n, 1) f32."""
    return np.ascontiguousarray(field).view("<f2").astype(np.float32)


def nibbles(field: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(..., m) bytes -> (..., 2 m) values 0..15: all low halves, then all high halves."""
    return np.concatenate([field & 15, field >> 4], axis=-1)


def bit_list(field: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(..., m) bytes -> (..., 8 m) values 0 or 1, the lowest bit of the first byte first."""
    return np.unpackbits(field, axis=-1, bitorder="little")
