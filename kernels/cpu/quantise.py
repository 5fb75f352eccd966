"""Quantising activation rows to int8, as the quantised matmuls read them.

Owns the arithmetic of one row and the op by itself; other row ops call `quantise_row` on their way
out. Knows no weight format: every row carries the scales and sums that any of them needs.
"""

from kernels.cpu.layout import (
    ACT_D,
    ACT_NSUM,
    ACT_NSUM16,
    ACT_S,
    IN_STRIDE,
    OUT_STRIDE,
    K,
)
from kernels.cpu.rows import input_rows, my_rows, output_rows
from kernels.cpu.simd import (
    f32,
    hmax,
    hsum_i,
    i32,
    kernel_part,
    load_f,
    rint,
    splat,
    store1_f32,
    store1_i32,
    store_i8,
    to_i,
    vabs,
    vmax,
)


@kernel_part
def quantise_row(src, dst, k):
    """k float32 values -> per 32 values q = round(x / d), d = max|x| / 127, laid out as in layout.py.

    Shapes: src (k,) f32, k a multiple of 32; dst one quantised activation row.
    """
    nb = k // 32
    for b in range(nb):
        x0, x1 = load_f(src + 128 * b), load_f(src + 128 * b + 64)
        peak = hmax(vmax(vabs(x0), vabs(x1)))
        d = peak * f32(1.0 / 127.0)
        inverse = splat(f32(127.0) / peak if peak > f32(0.0) else f32(0.0))
        q0, q1 = to_i(rint(x0 * inverse)), to_i(rint(x1 * inverse))
        store_i8(dst + 32 * b, q0)
        store_i8(dst + 32 * b + 16, q1)
        s0, s1 = hsum_i(q0), hsum_i(q1)
        store1_f32(dst + ACT_D * nb + 4 * b, d)
        store1_f32(dst + ACT_S * nb + 4 * b, f32(d * f32(s0 + s1)))
        store1_i32(dst + ACT_NSUM * nb + 4 * b, i32(-(s0 + s1)))
        store1_i32(dst + ACT_NSUM16 * nb + 8 * b, i32(-s0))
        store1_i32(dst + ACT_NSUM16 * nb + 8 * b + 4, i32(-s1))


def quantise(op, step, tid):
    """Rows of IN -> quantised rows of OUT."""
    x, out = input_rows(op, step, tid), output_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        quantise_row(x + r * op[IN_STRIDE], out + r * op[OUT_STRIDE], op[K])
