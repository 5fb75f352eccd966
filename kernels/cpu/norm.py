"""RMS norm of rows, alone or with what surrounds it: gathering logit rows, a residual, quantising.

Owns the op `rms_norm` (which also runs rms_norm_add and take_rms_norm) and the norm of one row;
knows no model.
"""

import math

from kernels.cpu.layout import ADDEND, ADDEND_STRIDE, EPS, IN_STRIDE, OUT_STRIDE, QUANTISE, K, W
from kernels.cpu.quantise import quantise_row
from kernels.cpu.rows import addend_rows, input_rows, my_rows, output_rows, scratch, source_row
from kernels.cpu.simd import as_f64, f32, fma, hsum, kernel_part, load_f, splat, store_f, zeros


@kernel_part
def norm_row(src, gain, dst, k, eps):
    """dst = src / sqrt(mean(src^2) + eps) * gain; dst may be src.

    Shapes: src, gain, dst (k,) f32, k a multiple of 16. The sum runs in four interleaved chains of
    vectors, whatever the row count. Source: Zhang & Sennrich 2019.
    """
    a = b = c = d = zeros()
    n = k // 64 * 64
    for i in range(0, 4 * n, 256):
        v0, v1 = load_f(src + i), load_f(src + i + 64)
        v2, v3 = load_f(src + i + 128), load_f(src + i + 192)
        a, b, c, d = fma(v0, v0, a), fma(v1, v1, b), fma(v2, v2, c), fma(v3, v3, d)
    for i in range(4 * n, 4 * k, 64):
        v = load_f(src + i)
        a = fma(v, v, a)
    scale = splat(f32(1.0 / math.sqrt(hsum((a + b) + (c + d)) / float(k) + eps)))
    for i in range(0, 4 * k, 64):
        store_f(dst + i, load_f(src + i) * scale * load_f(gain + i))


@kernel_part
def _add_row(x, y, k):
    for i in range(0, 4 * k, 64):
        store_f(x + i, load_f(x + i) + load_f(y + i))


def rms_norm(op, step, tid):
    """OUT = rms_norm(IN, gain W) + ADDEND (if there is one), quantised if QUANTISE."""
    x, out, addend = (
        input_rows(op, step, tid),
        output_rows(op, step, tid),
        addend_rows(op, step, tid),
    )
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        dst = out + r * op[OUT_STRIDE]
        floats = scratch(step, tid) if op[QUANTISE] else dst
        row = x + source_row(op, step, r) * op[IN_STRIDE]
        norm_row(row, op[W], floats, op[K], as_f64(op[EPS]))
        if op[ADDEND]:
            _add_row(floats, addend + r * op[ADDEND_STRIDE], op[K])
        if op[QUANTISE]:
            quantise_row(floats, dst, op[K])
