"""Tiles whose sums are taken up again, and addresses that two tiles read from one after the other.

Owns what only kernels of many rows need besides kernels.cpu.simd.tiles; knows no format.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.cpu.simd.types import F32V, I64, Tile, define, f32x16, i64, pointer


@intrinsic(prefer_literal=True)
def load_tile(tyctx, m, addr):
    """A tile of m float vectors that lie one after the other."""
    if not isinstance(m, types.IntegerLiteral):
        return None
    t = Tile(f32x16, m.literal_value)

    def codegen(ctx, b, sig, args):
        f = ir.Constant(t.llvm, ir.Undefined)
        for i in range(t.m):
            at = pointer(b, b.add(args[1], ir.Constant(I64, 64 * i)), F32V)
            f = b.insert_value(f, b.load(at, align=4), i)
        return f

    return t(m, i64), codegen


def _same_address(b, args):
    same = ir.InlineAsm(ir.FunctionType(I64, [I64]), "", "=r,0")
    return b.call(same, args)


# The address, of which LLVM does not know that it is the same: what is loaded from it once more is then
# not kept in registers from the first time on, which would be too few.
same_address = define(i64, (i64,), _same_address)
