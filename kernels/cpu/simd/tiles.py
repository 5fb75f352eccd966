"""Tiles: M rows of activations against 16 output features.

Owns the intrinsics that micro-kernels over M rows are written in; knows no format. They are unrolled
over M when the IR is built, so a kernel is written once for every M, and every row gets the same
operations in the same order whatever M is. Row m of the activations is at `addr + m * stride`.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.cpu.simd.dots import (
    HAS_SIGNED_EIGHT,
    emit_begin_short,
    emit_dot4_eight,
    emit_dot4_short,
    emit_end_short,
)
from kernels.cpu.simd.types import (
    F32V,
    I32,
    I32V,
    I64,
    Tile,
    broadcast,
    broadcast_load,
    emit_fma,
    f32x16,
    i32,
    i32x16,
    i64,
    pointer,
    void,
)


def _row(b, addr, stride, m):
    return b.add(addr, b.mul(stride, ir.Constant(I64, m)))


@intrinsic(prefer_literal=True)
def float_tile(tyctx, m):
    """float_tile(8): a zeroed tile of 8 float vectors; M is part of the type."""
    if not isinstance(m, types.IntegerLiteral):
        return None
    t = Tile(f32x16, m.literal_value)
    return t(m), lambda ctx, b, sig, args: ir.Constant(t.llvm, None)


@intrinsic
def int_tile(tyctx, like):
    t = Tile(i32x16, like.m)
    return t(like), lambda ctx, b, sig, args: ir.Constant(t.llvm, None)


def _offsets(b, t, addr, stride, shift):
    acc = ir.Constant(t.llvm, ir.Undefined)
    for m in range(t.m):
        v = b.shl(b.load(pointer(b, _row(b, addr, stride, m), I32), align=4), shift)
        acc = b.insert_value(acc, broadcast(b, v, I32V), m)
    return acc


@intrinsic
def offset_tile(tyctx, like, addr, stride, shift):
    """acc[m] = int at row m << shift: minus the sum of the activations, times a format's zero point."""
    t = Tile(i32x16, like.m)
    return t(like, i64, i64, i32), lambda ctx, b, sig, args: _offsets(b, t, *args[1:])


@intrinsic
def start_eight(tyctx, like, addr, stride):
    """Where sums of weights of 8 bits start, whose zero is 128: given minus the sum at row m."""
    t = Tile(i32x16, like.m)

    def codegen(ctx, b, sig, args):
        if HAS_SIGNED_EIGHT:
            return ir.Constant(t.llvm, None)
        return _offsets(b, t, args[1], args[2], ir.Constant(I32, 7))

    return t(like, i64, i64), codegen


def _define_dot4(emit):
    @intrinsic
    def dot(tyctx, acc, weights, addr, stride):
        def codegen(ctx, b, sig, args):
            acc, w, addr, stride = args
            for m in range(sig.return_type.m):
                x = broadcast_load(b, _row(b, addr, stride, m), I32V)
                acc = b.insert_value(acc, emit(b, b.extract_value(acc, m), w, x), m)
            return acc

        return acc(acc, i32x16, i64, i64), codegen

    return dot


# acc[m][lane] += sum of 4 bytes: weights[lane] x signed activations at row m.
dot4_eight = _define_dot4(emit_dot4_eight)  # of 8 bits; acc comes from start_eight
dot4_short = _define_dot4(emit_dot4_short)  # of up to 7 bits; acc is short, see below


@intrinsic
def begin_short(tyctx, acc):
    """Short sums on top of acc: words_in_short words may be added by dot4_short, then end_short."""

    def codegen(ctx, b, sig, args):
        short = args[0]
        for m in range(acc.m):
            short = b.insert_value(short, emit_begin_short(b, b.extract_value(args[0], m)), m)
        return short

    return acc(acc), codegen


@intrinsic
def end_short(tyctx, acc, short):
    """acc with the short sums added."""

    def codegen(ctx, b, sig, args):
        out = args[0]
        for m in range(acc.m):
            parts = (b.extract_value(tile, m) for tile in args)
            out = b.insert_value(out, emit_end_short(b, *parts), m)
        return out

    return acc(acc, acc), codegen


@intrinsic
def sum_tile(tyctx, acc):
    """One vector, the sum over M (used to keep a measurement's result alive)."""

    def codegen(ctx, b, sig, args):
        total = b.extract_value(args[0], 0)
        for m in range(1, sig.args[0].m):
            total = b.add(total, b.extract_value(args[0], m))
        return total

    return acc.vec(acc), codegen


@intrinsic
def add_tiles(tyctx, x, y):
    """x[m] + y[m], float tiles."""

    def codegen(ctx, b, sig, args):
        out = args[0]
        for m in range(sig.return_type.m):
            v = b.fadd(b.extract_value(args[0], m), b.extract_value(args[1], m))
            out = b.insert_value(out, v, m)
        return out

    return x(x, y), codegen


@intrinsic
def add_scaled_dots(tyctx, f, acc, d, addr, stride):
    """f[m] += float(acc[m]) * (d * activation scale of row m)"""

    def codegen(ctx, b, sig, args):
        f, acc, d, addr, stride = args
        for m in range(sig.return_type.m):
            scale = b.fmul(d, broadcast_load(b, _row(b, addr, stride, m), F32V))
            dots = b.sitofp(b.extract_value(acc, m), F32V)
            f = b.insert_value(f, emit_fma(b, dots, scale, b.extract_value(f, m)), m)
        return f

    return f(f, acc, f32x16, i64, i64), codegen


@intrinsic
def add_scaled(tyctx, f, v, addr, stride):
    """f[m] += v * float at row m"""

    def codegen(ctx, b, sig, args):
        f, v, addr, stride = args
        for m in range(sig.return_type.m):
            x = broadcast_load(b, _row(b, addr, stride, m), F32V)
            f = b.insert_value(f, emit_fma(b, v, x, b.extract_value(f, m)), m)
        return f

    return f(f, f32x16, i64, i64), codegen


@intrinsic
def add_scaled_pair(tyctx, f, v, w, addr, stride):
    """f[2m], f[2m + 1] += v, w * float at row m. Each float is used up before the next one is loaded:
    in any other order the floats alone would fill the registers."""

    def codegen(ctx, b, sig, args):
        f, v, w, addr, stride = args
        for m in range(sig.return_type.m // 2):
            x = broadcast_load(b, _row(b, addr, stride, m), F32V)
            f = b.insert_value(f, emit_fma(b, v, x, b.extract_value(f, 2 * m)), 2 * m)
            f = b.insert_value(f, emit_fma(b, w, x, b.extract_value(f, 2 * m + 1)), 2 * m + 1)
        return f

    return f(f, f32x16, f32x16, i64, i64), codegen


def _tile_out(accumulate, vectors=1):
    @intrinsic
    def out(tyctx, f, addr, stride):
        def codegen(ctx, b, sig, args):
            f, addr, stride = args
            for m in range(sig.args[0].m):
                at = b.add(
                    _row(b, addr, stride, m // vectors), ir.Constant(I64, 64 * (m % vectors))
                )
                p, v = pointer(b, at, F32V), b.extract_value(f, m)
                b.store(b.fadd(b.load(p, align=4), v) if accumulate else v, p, align=4)
            return ctx.get_dummy_value()

        return void(f, i64, i64), codegen

    return out


store_tile, add_tile = _tile_out(False), _tile_out(True)
# Two neighbouring vectors a row.
store_pairs, add_pairs = _tile_out(False, 2), _tile_out(True, 2)
