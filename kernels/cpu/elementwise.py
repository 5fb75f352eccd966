"""Row ops without a fusion of their own: sums, copies, gates, soft caps.

Owns ops that go over rows value by value; knows no model. A program needs them only where a rewrite
did not apply.
"""

from kernels.cpu.layout import (
    ADDEND_STRIDE,
    IN_STRIDE,
    MODE,
    OUT_STRIDE,
    SCALE,
    K,
    W,
)
from kernels.cpu.matmul import gated
from kernels.cpu.rows import addend_rows, input_rows, my_rows, output_rows, source_row
from kernels.cpu.simd import as_f64, f32, load_f, splat, store_f, vexp


def copy_rows(op, step, tid):
    """OUT = IN; with GATHER the rows that want logits."""
    x, out = input_rows(op, step, tid), output_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        src, dst = x + source_row(op, step, r) * op[IN_STRIDE], out + r * op[OUT_STRIDE]
        for i in range(0, 4 * op[K], 64):
            store_f(dst + i, load_f(src + i))


def add(op, step, tid):
    """OUT = IN + ADDEND."""
    x, out, addend = (
        input_rows(op, step, tid),
        output_rows(op, step, tid),
        addend_rows(op, step, tid),
    )
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        src, dst = x + r * op[IN_STRIDE], out + r * op[OUT_STRIDE]
        other = addend + r * op[ADDEND_STRIDE]
        for i in range(0, 4 * op[K], 64):
            store_f(dst + i, load_f(src + i) + load_f(other + i))


def add_bias(op, step, tid):
    """OUT = IN + the vector W."""
    x, out = input_rows(op, step, tid), output_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        src, dst = x + r * op[IN_STRIDE], out + r * op[OUT_STRIDE]
        for i in range(0, 4 * op[K], 64):
            store_f(dst + i, load_f(src + i) + load_f(op[W] + i))


def gate(op, step, tid):
    """OUT = act(IN) * ADDEND; act as in a gated matmul's MODE."""
    x, out, up = input_rows(op, step, tid), output_rows(op, step, tid), addend_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        src, dst = x + r * op[IN_STRIDE], out + r * op[OUT_STRIDE]
        other = up + r * op[ADDEND_STRIDE]
        for i in range(0, 4 * op[K], 64):
            store_f(dst + i, gated(load_f(src + i), load_f(other + i), op[MODE]))


def softcap(op, step, tid):
    """OUT = cap * tanh(IN / cap), cap in SCALE; tanh z = 1 - 2 / (exp(2z) + 1)."""
    x, out = input_rows(op, step, tid), output_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    cap, one, two = splat(f32(as_f64(op[SCALE]))), splat(f32(1.0)), splat(f32(2.0))
    for r in range(first, end):
        src, dst = x + r * op[IN_STRIDE], out + r * op[OUT_STRIDE]
        for i in range(0, 4 * op[K], 64):
            z = load_f(src + i) / cap
            tanh = one - two / (vexp(two * z) + one)
            store_f(dst + i, cap * tanh)
