"""Embedding: rows of the packed table, times a scale. Knows no format: `unpack_block` is a format's own."""

from __future__ import annotations

from kernels.cpu.layout import (
    GROUP_BYTES,
    OUT_STRIDE,
    S_TOKENS,
    SCALE,
    K,
    W,
)
from kernels.cpu.rows import my_rows, output_rows
from kernels.cpu.simd import as_f64, driver, f32, i64, load1_i32
from kernels.cpu.weight_format import LANES, unpack_block


@driver
def embed(op, step, tid, fmt):
    """Columns: W K GROUP_BYTES, OUT OUT_STRIDE OUT_SHARED, SCALE (float64 bits)."""
    scale = f32(as_f64(op[SCALE]))
    base = output_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        token = i64(load1_i32(step[S_TOKENS] + 4 * r))
        group, out = op[W] + token // LANES * op[GROUP_BYTES], base + r * op[OUT_STRIDE]
        for b in range(op[K] // fmt.block_len):
            dst = out + 4 * fmt.block_len * b
            unpack_block(fmt, group + b * fmt.packed_bytes, token % LANES, dst, scale)
