"""What keys and values become in the KV types that round them in blocks of 32.

Owns the definitions (GGML's Q8_0 and Q4_0); knows no pages. Values stay float32: only their rounding
is defined here, not their bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

BLOCK = 32


def _blocks(x: Floats) -> Floats:
    return x.astype(np.float32).reshape(*x.shape[:-1], -1, BLOCK)


def _inverse(d: Floats) -> Floats:
    return np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)


def q8_0(x: Floats) -> Floats:
    """d * q, d = the block's largest magnitude / 127 as float16. Shapes: (..., n) -> same, n % 32 == 0."""
    blocks = _blocks(x)
    d = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    q = np.rint(blocks * _inverse(d))
    rounded: Floats = (q * d.astype(np.float16).astype(np.float32)).reshape(x.shape)
    return rounded


def q4_0(x: Floats) -> Floats:
    """d * (q - 8), d = the block's value of largest magnitude / -8 as float16, 0 <= q <= 15.

    Shapes: (..., n) -> same, n % 32 == 0.
    """
    blocks = _blocks(x)
    largest = np.abs(blocks).argmax(-1)[..., None]
    d = np.take_along_axis(blocks, largest, -1) / np.float32(-8)
    q = np.minimum(np.rint(blocks * _inverse(d)) + 8, 15)
    rounded: Floats = ((q - 8) * d.astype(np.float16).astype(np.float32)).reshape(x.shape)
    return rounded


ROUNDINGS: dict[str, Callable[[Floats], Floats]] = {"q8_0": q8_0, "q4_0": q4_0}
