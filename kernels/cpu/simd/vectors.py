"""Operations on `f32x16` and `i32x16`: loads, arithmetic, reductions in a fixed order, exp.

Owns what a kernel can do with one vector; knows no tiles. `+ - * / |` work on vectors, everything
else is a named intrinsic. None carries fast-math flags, so LLVM may not reassociate.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

from kernels.cpu.simd.halves import HALF, HALFV, narrow, widen
from kernels.cpu.simd.types import (
    F32,
    F32V,
    I8,
    I8Q,
    I16V,
    I32,
    I32V,
    I64,
    LANES,
    Vec,
    as_bytes,
    broadcast,
    broadcast_load,
    call,
    constant,
    define,
    define_load,
    define_store,
    emit_fma,
    f32,
    f32x16,
    i32,
    i32x16,
    i64,
    inline_part,
    pointer,
    void,
)


def _operator(op, float_emit, int_emit=None):
    @infer_global(op)
    class VecOp(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and args[0] == args[1] and isinstance(args[0], Vec):
                return signature(args[0], *args)
            return None

    @lower_builtin(op, Vec, Vec)
    def lower(ctx, b, sig, args):
        emit = float_emit if sig.return_type == f32x16 else int_emit
        return getattr(b, emit)(*args)


_operator(operator.add, "fadd", "add")
_operator(operator.sub, "fsub", "sub")
_operator(operator.mul, "fmul", "mul")
_operator(operator.truediv, "fdiv")
_operator(operator.or_, "or_", "or_")


# ---- memory --------------------------------------------------------------------------------------


def _bf16_to_f32(b, v):
    """bfloat16 is the upper half of a float32."""
    return b.bitcast(b.shl(b.zext(v, I32V), constant(I32V, 16)), F32V)


load_f, load_i = define_load(F32V, f32x16), define_load(I32V, i32x16)
load_f16 = define_load(HALFV, f32x16, widen)
load_bf16 = define_load(I16V, f32x16, _bf16_to_f32)
load_u8_f = define_load(I8Q, f32x16, lambda b, v: b.uitofp(v, F32V))
load_i8_f = define_load(I8Q, f32x16, lambda b, v: b.sitofp(v, F32V))
load_u4_f = define(  # the 4 bits from bit `shift` of every byte
    f32x16,
    (i64, i32),
    lambda b, a: b.uitofp(
        b.and_(
            b.lshr(b.zext(b.load(pointer(b, a[0], I8Q), align=1), I32V), broadcast(b, a[1], I32V)),
            constant(I32V, 15),
        ),
        F32V,
    ),
)
splat_load = define(f32x16, (i64,), lambda b, a: broadcast_load(b, a[0], F32V))

store_f, store_i = define_store(F32V, f32x16), define_store(I32V, i32x16)
store_i8 = define_store(I8Q, i32x16, lambda b, v: b.trunc(v, I8Q))
store_f16 = define_store(HALFV, f32x16, narrow)


def _scatter_f16(b, a):
    addr, v, stride = a
    half = narrow(b, v)
    for i in range(LANES):
        p = pointer(b, b.add(addr, b.mul(stride, ir.Constant(I64, i))), HALF)
        b.store(b.extract_element(half, ir.Constant(I32, i)), p, align=2)


def _scatter_f(b, a):
    addr, v, stride = a
    for i in range(LANES):
        p = pointer(b, b.add(addr, b.mul(stride, ir.Constant(I64, i))), F32)
        b.store(b.extract_element(v, ir.Constant(I32, i)), p, align=4)


def _scatter_i8(b, a):
    addr, v, stride = a
    for i in range(LANES):
        p = pointer(b, b.add(addr, b.mul(stride, ir.Constant(I64, i))), I8)
        b.store(b.trunc(b.extract_element(v, ir.Constant(I32, i)), I8), p, align=1)


scatter_f = define(void, (i64, f32x16, i64), _scatter_f)
scatter_i8 = define(void, (i64, i32x16, i64), _scatter_i8)
scatter_f16 = define(void, (i64, f32x16, i64), _scatter_f16)


def _prefetch(locality):
    def emit(b, a):
        p = pointer(b, a[0], I8)
        fn_type = ir.FunctionType(ir.VoidType(), [p.type, I32, I32, I32])
        fn = cgutils.get_or_insert_function(b.module, fn_type, "llvm.prefetch.p0")
        b.call(fn, [p] + [ir.Constant(I32, v) for v in (0, locality, 1)])

    return emit


# To the second-level cache: the first level's few line buffers are left to loads. Near: to the first level.
prefetch, prefetch_near = (define(void, (i64,), _prefetch(locality)) for locality in (2, 3))


# ---- arithmetic ----------------------------------------------------------------------------------

splat = define(f32x16, (f32,), lambda b, a: broadcast(b, a[0], F32V))
zeros = define(f32x16, (), lambda b, a: constant(F32V, 0.0))
fma = define(f32x16, (f32x16, f32x16, f32x16), lambda b, a: emit_fma(b, *a))
# compare + select is one machine instruction; llvm.maxnum is several (it must handle NaN)
vmax = define(f32x16, (f32x16, f32x16), lambda b, a: b.select(b.fcmp_ordered(">", *a), *a))
vmin = define(f32x16, (f32x16, f32x16), lambda b, a: b.select(b.fcmp_ordered("<", *a), *a))
vabs = define(f32x16, (f32x16,), lambda b, a: call(b, "llvm.fabs.v16f32", F32V, a))
rint = define(f32x16, (f32x16,), lambda b, a: call(b, "llvm.rint.v16f32", F32V, a))
to_i = define(i32x16, (f32x16,), lambda b, a: b.fptosi(a[0], I32V))
_pow2 = define(
    f32x16,
    (f32x16,),
    lambda b, a: b.bitcast(
        b.shl(b.add(b.fptosi(a[0], I32V), constant(I32V, 127)), constant(I32V, 23)), F32V
    ),
)


@inline_part
def vexp(x):
    """exp of 16 floats (Cephes polynomial, about 1e-7 relative); exp(0) is exactly 1."""
    x = vmax(vmin(x, splat(f32(88.0))), splat(f32(-87.0)))
    n = rint(x * splat(f32(1.44269504088896341)))
    r = fma(n, splat(f32(-0.693359375)), x)
    r = fma(n, splat(f32(2.12194440e-4)), r)
    p = fma(splat(f32(1.9875691500e-4)), r, splat(f32(1.3981999507e-3)))
    p = fma(p, r, splat(f32(8.3334519073e-3)))
    p = fma(p, r, splat(f32(4.1665795894e-2)))
    p = fma(p, r, splat(f32(1.6666665459e-1)))
    p = fma(p, r, splat(f32(5.0000001201e-1)))
    return (fma(p * r, r, r) + splat(f32(1.0))) * _pow2(n)


# p * 2^n, where n is what the low bits of `shifted` (1.5 * 2^23 + n) hold
_times_pow2 = define(
    f32x16,
    (f32x16, f32x16),
    lambda b, a: b.bitcast(
        b.add(b.bitcast(a[0], I32V), b.shl(b.bitcast(a[1], I32V), constant(I32V, 23))), F32V
    ),
)


@inline_part
def vexp2(x):
    """2^x of 16 floats up to 126, within 2e-7; 2^0 is exactly 1, from -126 down it is 2^-126.

    Rounded by adding a number whose last bit is 1; (2^r - 1) / r by a polynomial of degree 4 that
    was fitted for the least relative error of 2^r in [-1/2, 1/2].
    """
    x = vmax(x, splat(f32(-126.0)))
    shifted = x + splat(f32(12582912.0))
    r = x - (shifted - splat(f32(12582912.0)))
    p = fma(splat(f32(1.3264727081e-3)), r, splat(f32(9.6715128623e-3)))
    p = fma(p, r, splat(f32(5.5507337456e-2)))
    p = fma(p, r, splat(f32(2.4022242082e-1)))
    p = fma(p, r, splat(f32(6.9314697760e-1)))
    return _times_pow2(fma(p, r, splat(f32(1.0))), shifted)


# ---- reductions ----------------------------------------------------------------------------------


def _fold(combine):
    """Reduce the lanes by halves: a fixed order that LLVM may not change."""

    def emit(b, a):
        v = a[0]
        for n in (8, 4, 2, 1):
            masks = [ir.Constant(ir.VectorType(I32, n), list(range(at, at + n))) for at in (0, n)]
            v = combine(b, *(b.shuffle_vector(v, v, mask) for mask in masks))
        return b.extract_element(v, ir.Constant(I32, 0))

    return emit


hsum = define(f32, (f32x16,), _fold(lambda b, x, y: b.fadd(x, y)))
hmax = define(f32, (f32x16,), _fold(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y)))
hsum_i = define(i32, (i32x16,), lambda b, a: call(b, "llvm.vector.reduce.add.v16i32", I32, a))


def _mask(keep_if):
    def emit(b, a):
        v, first, limit, fill = a
        lanes = ir.Constant(I32V, list(range(LANES)))
        lane = b.add(broadcast(b, b.trunc(first, I32), I32V), lanes)
        keep = b.icmp_signed(keep_if, lane, broadcast(b, b.trunc(limit, I32), I32V))
        return b.select(keep, v, broadcast(b, fill, F32V))

    return define(f32x16, (f32x16, i64, i64, f32), emit)


# lanes first, first+1, ...: those with index > last (or < start) become `fill`
mask_beyond = _mask("<=")
mask_before = _mask(">=")


# ---- bit fields of quantised weights: four bytes a lane -------------------------------------------


def _and(b, v, mask):
    return b.and_(v, constant(I32V, mask))


low_nibbles = define(i32x16, (i32x16,), lambda b, a: _and(b, a[0], 0x0F0F0F0F))
high_nibbles = define(
    i32x16, (i32x16,), lambda b, a: _and(b, b.lshr(a[0], constant(I32V, 4)), 0x0F0F0F0F)
)


def _field(mask, up=0):
    """The field at bit `shift` of every byte, moved to bit `up`."""

    def emit(b, a):
        moved = b.lshr(a[0], broadcast(b, a[1], I32V))
        return _and(b, b.shl(moved, constant(I32V, up)) if up else moved, mask << up)

    return define(i32x16, (i32x16, i32), emit)


nibbles_at = _field(0x0F0F0F0F)
pairs_at = _field(0x03030303)


def _subtract_bytes(b, a):
    v, zero = as_bytes(b, a[0]), broadcast(b, b.trunc(a[1], I8), ir.VectorType(I8, 4 * LANES))
    return b.bitcast(b.sub(v, zero), I32V)


subtract_bytes = define(i32x16, (i32x16, i32), _subtract_bytes)
bit_to_2 = _field(0x01010101, up=2)  # the third bit of a Q3_K weight
bit_to_4 = _field(0x01010101, up=4)  # the fifth bit of a Q5 weight
pair_to_4 = _field(0x03030303, up=4)  # the upper two bits of a Q6_K weight
