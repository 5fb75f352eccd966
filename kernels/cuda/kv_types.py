"""The types keys and values are kept in on dies, and how many bytes they take.

Owns the sizes of what kv_types.cuh lays out; knows no layout. Blocks of quantised types are 32 values
of one position, with a float16 scale, as in GGML.
"""

from __future__ import annotations

PAGE_LEN = 32  # positions of a page
KV_BLOCK = 32  # values that share a scale
_VALUE_BYTES = {"f16": 2, "f32": 4}
_BLOCK_BYTES = {"q8_0": 34, "q4_0": 18}
KV_TYPES = (*_VALUE_BYTES, *_BLOCK_BYTES)


def in_blocks(kv_type: str) -> bool:
    """Such a type takes heads of whole blocks alone."""
    return kv_type in _BLOCK_BYTES


def part_bytes(kv_type: str, head_dim: int) -> int:
    """Of one head's keys (or values) of a page; a type in blocks needs a multiple of KV_BLOCK."""
    if in_blocks(kv_type):
        return PAGE_LEN * (head_dim // KV_BLOCK) * _BLOCK_BYTES[kv_type]
    return PAGE_LEN * head_dim * _VALUE_BYTES[kv_type]
