"""The reference backend's KV memory. Owns its types and sizes; knows nothing about steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel.backend import PAGE_LEN
from kernels.reference.attention import LayerPages
from kernels.reference.kv_rounding import ROUNDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernels.specs.program import KVShape

# Quantised types are rounded as they are everywhere, but kept as float32.
KV_TYPES: dict[str, type[np.float16 | np.float32]] = {
    "f16": np.float16,
    "f32": np.float32,
    "q8_0": np.float32,
    "q4_0": np.float32,
}


def make_pages(layers: Sequence[KVShape], num_pages: int, kv_type: str) -> list[LayerPages]:
    """Zeroed pages of every layer. Raises: KeyError for an unknown type, MemoryError."""
    dtype, rounding = KV_TYPES[kv_type], ROUNDINGS.get(kv_type)
    pages = []
    for layer in layers:
        shape = (num_pages, PAGE_LEN, layer.num_kv_heads, layer.head_dim)
        pages.append(LayerPages(np.zeros(shape, dtype), np.zeros(shape, dtype), rounding))
    return pages
