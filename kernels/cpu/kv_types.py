"""The types keys and values are kept in, and how many bytes they take.

Owns the types' numbers and sizes; knows no layout. Blocks of quantised types are 32 features of one
position, with a float16 scale, as in GGML.
"""

from kernels.cpu.layout import PAGE
from kernels.cpu.simd import inline_part

KV_BLOCK = 32  # values that share a scale
F16, Q8_0, Q4_0, F32 = 0, 1, 2, 3
KV_TYPES = {"f16": F16, "q8_0": Q8_0, "q4_0": Q4_0, "f32": F32}
IN_BLOCKS = frozenset({"q8_0", "q4_0"})  # these take heads of whole blocks alone


@inline_part
def part_bytes(kv_type, dim):
    """Of one head's keys (or values) of a page. Outside kernels: part_bytes.py_func."""
    if kv_type == Q8_0:
        return PAGE * dim + 2 * PAGE * (dim // KV_BLOCK)
    if kv_type == Q4_0:
        return PAGE * dim // 2 + 2 * PAGE * (dim // KV_BLOCK)
    if kv_type == F32:
        return 4 * PAGE * dim
    return 2 * PAGE * dim
