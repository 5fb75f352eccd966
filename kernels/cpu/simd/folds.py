"""Four vectors reduced at once: a quarter of the result for each, at a quarter of the shuffles.

Owns such reductions and what takes their results apart; knows no format. Quarter i of a vector is its
lanes 4i to 4i + 3.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.cpu.simd.types import (
    F32V,
    I32,
    I32V,
    LANES,
    constant,
    define,
    f32x16,
    i32x16,
    i64,
    pointer,
    void,
)


def _shuffle(b, x, y, lanes):
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def _lanes(*starts, length):
    return [start + i for start in starts for i in range(length)]


def _fold(combine):
    def halves(b, x, y):
        """The halves of x and of y."""
        low = _shuffle(b, x, y, _lanes(0, 16, length=8))
        return combine(b, low, _shuffle(b, x, y, _lanes(8, 24, length=8)))

    def emit(b, args):
        x, y = halves(b, *args[:2]), halves(b, *args[2:])
        low = _shuffle(b, x, y, _lanes(0, 8, 16, 24, length=4))
        v = combine(b, low, _shuffle(b, x, y, _lanes(4, 12, 20, 28, length=4)))
        for distance in (2, 1):
            v = combine(b, v, _shuffle(b, v, v, [lane ^ distance for lane in range(LANES)]))
        return v

    return emit


# Every lane of quarter i: the sum, or the maximum, of the lanes of vector i.
quarter_sums = define(i32x16, (i32x16,) * 4, _fold(lambda b, x, y: b.add(x, y)))
quarter_peaks = define(
    f32x16, (f32x16,) * 4, _fold(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))
)


@intrinsic(prefer_literal=True)
def splat_quarter(tyctx, v, i):
    """The first lane of quarter i in all lanes."""
    if not isinstance(i, types.IntegerLiteral):
        return None
    lanes = [4 * i.literal_value] * LANES
    return v(v, i), lambda ctx, b, sig, args: _shuffle(b, args[0], args[0], lanes)


def _quarters(b, a):
    return _shuffle(b, *a, _lanes(0, 4, 8, 12, 16, 20, 24, 28, length=1) * 2)


# Lanes 0 to 3: one of each quarter of a vector; 4 to 7: of another one.
quarters, quarters_i = (define(t, (t, t), _quarters) for t in (f32x16, i32x16))
# Lane i of the lower half: the sum of lanes 2i and 2i + 1.
pair_sums = define(
    i32x16,
    (i32x16,),
    lambda b, a: b.add(
        *(_shuffle(b, a[0], a[0], [(2 * i + at) % LANES for i in range(LANES)]) for at in (0, 1))
    ),
)
to_f = define(f32x16, (i32x16,), lambda b, a: b.sitofp(a[0], F32V))
# x / y where y is positive, else 0.
ratio_or_zero = define(
    f32x16,
    (f32x16, f32x16),
    lambda b, a: b.select(
        b.fcmp_ordered(">", a[1], constant(F32V, 0.0)), b.fdiv(*a), constant(F32V, 0.0)
    ),
)
negated = define(i32x16, (i32x16,), lambda b, a: b.sub(constant(I32V, 0), a[0]))


def _define_store(count, ty):
    """The first `count` lanes."""

    def emit(b, args):
        at, v = args
        first = _shuffle(b, v, v, list(range(count)))
        b.store(first, pointer(b, at, first.type), align=4)

    return define(void, (i64, ty), emit)


store_4_f, store_4_i, store_8_i = (
    _define_store(4, f32x16),
    _define_store(4, i32x16),
    _define_store(8, i32x16),
)
