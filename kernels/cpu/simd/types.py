"""Vector and tile types for numba, and the shorthand that intrinsics are built with.

Owns the machine form of values; knows no operation on them. `f32x16` and `i32x16` are numba types
whose machine form is an LLVM vector of 512 bits (LLVM splits it where registers are narrower). A
*tile* is M vectors (M = 1, 2, 4, 8) held in registers: one vector of 16 output features for each of M
activation rows.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

I8, I16, I32, I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
LANES = 16
F32V, I32V = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)
F16V, I16V, I8Q = (ir.VectorType(t, LANES) for t in (F16, I16, I8))

# Every kernel is compiled with these: no exceptions for x // 0, no Python entry point (compile time).
# Never fastmath: a row's order of summation is a promise.
OPTIONS = {"nogil": True, "error_model": "numpy"}
kernel_part = njit(**OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)
inline_part = njit(**OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)
# Inlined by numba itself: an entry point and its driver are then optimised once, not twice.
driver = njit(**OPTIONS, inline="always")

i32, i64, f32, f64, void = types.int32, types.int64, types.float32, types.float64, types.void


class Vec(types.Type):
    def __init__(self, name, llvm):
        self.llvm = llvm
        super().__init__(name=name)


class Tile(types.Type):
    """M vectors of one kind, as an LLVM array: lives in registers once everything is unrolled."""

    def __init__(self, vec, m):
        self.vec, self.m, self.llvm = vec, m, ir.ArrayType(vec.llvm, m)
        super().__init__(name=f"{vec.name}x{m}")


@register_model(Vec)
@register_model(Tile)
class _RegisterModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, fe_type.llvm)


f32x16, i32x16 = Vec("f32x16", F32V), Vec("i32x16", I32V)


# ---- IR shorthand: b is an llvmlite IRBuilder ----------------------------------------------------


def pointer(b, addr, llvm_type):
    """Addresses are plain int64 in kernels."""
    return b.inttoptr(addr, llvm_type.as_pointer())


def constant(vec_type, value):
    return ir.Constant(vec_type, [value] * vec_type.count)


def broadcast(b, scalar, vec_type):
    undef = ir.Constant(vec_type, ir.Undefined)
    one = b.insert_element(undef, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(one, undef, constant(ir.VectorType(I32, vec_type.count), 0))


def broadcast_load(b, addr, vec_type):
    """Load one scalar into all lanes: LLVM folds it into the user as a broadcast memory operand."""
    return broadcast(b, b.load(pointer(b, addr, vec_type.element), align=1), vec_type)


def call(b, name, ret, args):
    fn_type = ir.FunctionType(ret, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, fn_type, name), args)


def emit_fma(b, x, y, z):
    """x * y + z: fused where the CPU has the instruction, else two (never a library call a lane)."""
    return call(b, "llvm.fmuladd.v16f32", F32V, [x, y, z])


def in_pieces(b, bits, piece, *vectors):
    """An operation on vectors of 16 int32 as operations on registers: piece(parts of `bits` bits)."""
    lanes = bits // 32
    parts = []
    for at in range(0, LANES, lanes):
        mask = ir.Constant(ir.VectorType(I32, lanes), list(range(at, at + lanes)))
        parts.append(piece(*(b.shuffle_vector(v, v, mask) for v in vectors)))
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        mask = ir.Constant(ir.VectorType(I32, count), list(range(count)))
        parts = [
            b.shuffle_vector(low, high, mask)
            for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def as_bytes(b, v):
    return b.bitcast(v, ir.VectorType(I8, 4 * v.type.count))


def define(result, params, emit):
    """An intrinsic of fixed signature: emit(builder, args) -> value, or None for void."""

    def codegen(ctx, b, sig, args):
        value = emit(b, args)
        return ctx.get_dummy_value() if value is None else value

    sig = result(*params)
    # numba wants the real parameter count, hence one small lambda per arity
    body = {
        0: lambda t: (sig, codegen),
        1: lambda t, a: (sig, codegen),
        2: lambda t, a, b: (sig, codegen),
        3: lambda t, a, b, c: (sig, codegen),
        4: lambda t, a, b, c, d: (sig, codegen),
    }[len(params)]
    return intrinsic(body)


def define_load(llvm, ty, widen=None):
    """A load from any address; widen(builder, value) makes it the kernel's type."""

    def emit(b, args):
        value = b.load(pointer(b, args[0], llvm), align=1)
        return widen(b, value) if widen else value

    return define(ty, (i64,), emit)


def define_store(llvm, ty, narrow=None):
    def emit(b, args):
        value = narrow(b, args[1]) if narrow else args[1]
        b.store(value, pointer(b, args[0], llvm), align=1)

    return define(void, (i64, ty), emit)
