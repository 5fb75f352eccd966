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
    inline_part,
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
from kernels.cpu.simd.folds import (
    negated,
    pair_sums,
    quarter_peaks,
    quarter_sums,
    quarters,
    quarters_i,
    ratio_or_zero,
    splat_quarter,
    store_4_f,
    store_4_i,
    store_8_i,
    to_f,
)


@kernel_part
def _quantise_block(src, dst, b, nb):
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


@inline_part
def _peak(src):
    return vmax(vabs(load_f(src)), vabs(load_f(src + 64)))


@inline_part
def _peaks(src):
    """Of four blocks, a quarter each."""
    return quarter_peaks(_peak(src), _peak(src + 128), _peak(src + 256), _peak(src + 384))


@inline_part
def _bytes(src, dst, inverse):
    """Half a block: 16 values -> bytes, also returned."""
    q = to_i(rint(load_f(src) * inverse))
    store_i8(dst, q)
    return q


@inline_part
def _two_blocks(src, dst, inverse, other_inverse):
    """Two blocks -> bytes, and the sums of their halves, a quarter each."""
    q0, q1 = _bytes(src, dst, inverse), _bytes(src + 64, dst + 16, inverse)
    q2, q3 = _bytes(src + 128, dst + 32, other_inverse), _bytes(src + 192, dst + 48, other_inverse)
    return quarter_sums(q0, q1, q2, q3)


@inline_part
def _quantise_four(src, dst, b, nb, peaks, inverse):
    """_quantise_block of blocks b to b + 3, to the same bits."""
    x, q = src + 128 * b, dst + 32 * b
    halves = quarters_i(
        _two_blocks(x, q, splat_quarter(inverse, 0), splat_quarter(inverse, 1)),
        _two_blocks(x + 256, q + 64, splat_quarter(inverse, 2), splat_quarter(inverse, 3)),
    )
    sums, d = pair_sums(halves), quarters(peaks, peaks) * splat(f32(1.0 / 127.0))
    store_4_f(dst + ACT_D * nb + 4 * b, d)
    store_4_f(dst + ACT_S * nb + 4 * b, d * to_f(sums))
    store_4_i(dst + ACT_NSUM * nb + 4 * b, negated(sums))
    store_8_i(dst + ACT_NSUM16 * nb + 8 * b, negated(halves))


@kernel_part
def quantise_row(src, dst, k):
    """k float32 values -> per 32 values q = round(x / d), d = max|x| / 127, laid out as in layout.py.

    Shapes: src (k,) f32, k a multiple of 32; dst one quantised activation row.
    """
    nb = k // 32
    if nb < 4:
        for b in range(nb):
            _quantise_block(src, dst, b, nb)
        return
    # The next four blocks' peaks while these are written: one chain of instructions would be too long
    # for the CPU to begin the next one early. The last four may take in some of those before.
    top = splat(f32(127.0))
    peaks = _peaks(src)
    inverse = ratio_or_zero(top, peaks)
    for b in range(0, nb, 4):
        next_peaks = _peaks(src + 128 * min(b + 4, nb - 4))
        next_inverse = ratio_or_zero(top, next_peaks)
        _quantise_four(src, dst, min(b, nb - 4), nb, peaks, inverse)
        peaks, inverse = next_peaks, next_inverse


def quantise(op, step, tid):
    """Rows of IN -> quantised rows of OUT."""
    x, out = input_rows(op, step, tid), output_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    for r in range(first, end):
        quantise_row(x + r * op[IN_STRIDE], out + r * op[OUT_STRIDE], op[K])
