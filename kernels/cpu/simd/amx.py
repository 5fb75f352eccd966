"""AMX: products of int8 tiles into int32, 16 activation rows x 16 features x up to 64 columns at once.

Owns the tile instructions and which of the eight tile registers is what; knows no format. Registers
0 and 1 are products, 2 and 3 activations, 4 and 5 weights: two products are under way at a time.
The process must be allowed to use them (kernels.cpu.amx_permission) and a thread must load a
configuration first; it should release it when it is done, or every context switch saves 8 KiB more.
"""

from __future__ import annotations

from llvmlite import ir
from numba.extending import intrinsic

from kernels.cpu.simd.scalars import store1_i64, store1_u8, store1_u16
from kernels.cpu.simd.types import (
    F32V,
    I8,
    I32V,
    I64,
    broadcast_load,
    call,
    constant,
    define,
    emit_fma,
    f32x16,
    i32,
    i64,
    inline_part,
    pointer,
    void,
)

CONFIG_BYTES = 64
PRODUCT_BYTES = 1024  # of 16 rows
# 1.5 * 2^23: a float32 from 2^23 to 2^24 holds integers, in its lower bits.
_MAGIC = 0x4B400000


def _number(tile):
    return ir.Constant(I8, tile)


def _void(b, name, *args):
    call(b, f"llvm.x86.{name}", ir.VoidType(), list(args))


def _load(b, tile, addr, stride):
    _void(b, "tileloadd64", _number(tile), pointer(b, addr, I8), stride)


_load_config = define(void, (i64,), lambda b, a: _void(b, "ldtilecfg", pointer(b, a[0], I8)))
release_tiles = define(void, (), lambda b, a: _void(b, "tilerelease"))


@inline_part
def configure_tiles(addr, num_rows, run_len):
    """Products of num_rows rows over run_len columns. addr: CONFIG_BYTES of scratch."""
    for i in range(0, CONFIG_BYTES, 8):
        store1_i64(addr + i, 0)
    store1_u8(addr, i32(1))
    for tile in range(6):
        store1_u16(addr + 16 + 2 * tile, i32(run_len if tile in (2, 3) else 64))
        store1_u8(addr + 48 + tile, i32(run_len // 4 if tile > 3 else num_rows))
    _load_config(addr)


def _begin(which):
    def emit(b, args):
        x, stride, w = args
        product, rows, weights = (_number(at + which) for at in (0, 2, 4))
        _void(b, "tilezero", product)
        _load(b, 2 + which, x, stride)
        _load(b, 4 + which, w, ir.Constant(I64, 64))
        _void(b, "tdpbssd", product, rows, weights)

    return define(void, (i64, i64, i64), emit)


def _end(which):
    def emit(b, args):
        _void(b, "tilestored64", _number(which), pointer(b, args[0], I8), ir.Constant(I64, 64))

    return define(void, (i64,), emit)


# begin(x, stride, w): start a product of the rows at x and the lines at w; end(addr): store it.
begin_even, begin_odd = _begin(0), _begin(1)
end_even, end_odd = _end(0), _end(1)


@intrinsic
def add_scaled_products(tyctx, f, products, d, scales):
    """f[m] += float(products[m]) * (d * scales[m]), as tiles.add_scaled_dots does it.

    Products must be below 2^22: integer addition to 1.5 * 2^23's bits and a subtraction then convert them
    exactly. While tiles are at work a core has one multiplier for vectors left, but two adders, and a
    conversion would take the multiplier.
    """

    def codegen(ctx, b, sig, args):
        f, products, d, scales = args
        for m in range(sig.return_type.m):
            at = pointer(b, b.add(products, ir.Constant(I64, 64 * m)), I32V)
            bits = b.add(b.load(at, align=64), constant(I32V, _MAGIC))
            dots = b.fsub(b.bitcast(bits, F32V), constant(F32V, 1.5 * 2.0**23))
            one = broadcast_load(b, b.add(scales, ir.Constant(I64, 4 * m)), F32V)
            f = b.insert_value(f, emit_fma(b, dots, b.fmul(d, one), b.extract_value(f, m)), m)
        return f

    return f(f, i64, f32x16, i64), codegen
