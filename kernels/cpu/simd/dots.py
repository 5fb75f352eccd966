"""The dot product of bytes that all quantised matmuls rest on, one form per instruction set.

Owns the only instruction that differs between hosts: 16 lanes of int32 += sums of 4 products of an
unsigned weight byte and a signed activation byte. Exact in every form, so results never depend on
the host. Knows no format.
"""

from __future__ import annotations

from llvmlite import ir

from kernels.cpu import kernel_cache
from kernels.cpu.simd.types import I8, I8V, I16, I32, I32V, call, constant

ISA = kernel_cache.configure().isa

_I8H, _I16H, _I32H = ir.VectorType(I8, 32), ir.VectorType(I16, 16), ir.VectorType(I32, 8)


def emit_dot4(b, acc, weights, x, wide):
    """acc (16 x i32) + weights (16 x i32 holding bytes) . x (the same); wide: weights may exceed 127."""
    return _FORMS[ISA](b, acc, weights, x, wide)


def _vnni_512(b, acc, weights, x, wide):
    operands = [acc, b.bitcast(weights, I8V), b.bitcast(x, I8V)]
    return call(b, "llvm.x86.avx512.vpdpbusd.512", I32V, operands)


def _vnni_256(b, acc, weights, x, wide):
    def half(acc, weights, x):
        operands = [acc, b.bitcast(weights, _I8H), b.bitcast(x, _I8H)]
        return call(b, "llvm.x86.avx512.vpdpbusd.256", _I32H, operands)

    return _by_halves(b, half, acc, weights, x)


def _avx2(b, acc, weights, x, wide):
    """Pairs into int16, pairs of those into int32. 2 * 127 * 128 fits int16; 2 * 255 * 128 would
    saturate, so wide weights go in two parts (their lower 7 bits, their top bit)."""
    ones = constant(_I16H, 1)

    def add(acc, weights, x):
        pairs = call(b, "llvm.x86.avx2.pmadd.ub.sw", _I16H, [weights, x])
        return b.add(acc, call(b, "llvm.x86.avx2.pmadd.wd", _I32H, [pairs, ones]))

    def half(acc, weights, x):
        weights, x = b.bitcast(weights, _I8H), b.bitcast(x, _I8H)
        if not wide:
            return add(acc, weights, x)
        acc = add(acc, b.and_(weights, constant(_I8H, 127)), x)
        return add(acc, b.and_(weights, constant(_I8H, 128)), x)

    return _by_halves(b, half, acc, weights, x)


def _generic(b, acc, weights, x, wide):
    """One byte of every lane at a time, in plain IR that LLVM lowers for any CPU."""
    for byte in range(4):
        w = b.and_(b.lshr(weights, constant(I32V, 8 * byte)), constant(I32V, 255))
        v = b.ashr(b.shl(x, constant(I32V, 24 - 8 * byte)), constant(I32V, 24))
        acc = b.add(acc, b.mul(w, v))
    return acc


def _by_halves(b, form, *vectors):
    lanes = ir.VectorType(I32, 8)
    parts = [
        form(
            *(b.shuffle_vector(v, v, ir.Constant(lanes, list(range(at, at + 8)))) for v in vectors)
        )
        for at in (0, 8)
    ]
    return b.shuffle_vector(*parts, ir.Constant(ir.VectorType(I32, 16), list(range(16))))


_FORMS = {"avx512vnni": _vnni_512, "avxvnni": _vnni_256, "avx2": _avx2, "generic": _generic}

# Rows of the widest tile: two accumulators a row must fit the registers.
MAX_TILE = 8 if ISA == "avx512vnni" else 4
