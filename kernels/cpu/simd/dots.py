"""The dot product of bytes that all quantised matmuls rest on, one form per instruction set.

Owns the only instruction that differs between hosts: 16 lanes of int32 += sums of 4 products of an
unsigned weight byte and a signed activation byte. Exact in every form, so results never depend on
the host. Knows no format.
"""

from __future__ import annotations

from llvmlite import ir

from kernels.cpu import kernel_cache
from kernels.cpu.simd.types import I16, I32V, as_bytes, call, constant, in_pieces

ISA = kernel_cache.configure().isa


def emit_dot4(b, acc, weights, x, wide):
    """acc (16 x i32) + weights (16 x i32 holding bytes) . x (the same); wide: weights may exceed 127."""
    return _FORMS[ISA](b, acc, weights, x, wide)


def _vnni(bits):
    """vpdpbusd; registers of 256 bits encode it for AVX-VNNI as well as for AVX-512."""

    def form(b, acc, weights, x, wide):
        def piece(acc, weights, x):
            operands = [acc, as_bytes(b, weights), as_bytes(b, x)]
            return call(b, f"llvm.x86.avx512.vpdpbusd.{bits}", acc.type, operands)

        return in_pieces(b, bits, piece, acc, weights, x)

    return form


def _pair_sums(bits, bytes_to_words, words_to_ints):
    """Pairs into int16, pairs of those into int32. 2 * 127 * 128 fits int16; 2 * 255 * 128 would
    saturate, so wide weights go in two parts: their lower 7 bits, their top bit."""
    words = ir.VectorType(I16, bits // 16)

    def form(b, acc, weights, x, wide):
        def add(acc, weights, x):
            pairs = call(b, bytes_to_words, words, [weights, x])
            return b.add(acc, call(b, words_to_ints, acc.type, [pairs, constant(words, 1)]))

        def piece(acc, weights, x):
            weights, x = as_bytes(b, weights), as_bytes(b, x)
            if not wide:
                return add(acc, weights, x)
            acc = add(acc, b.and_(weights, constant(weights.type, 127)), x)
            return add(acc, b.and_(weights, constant(weights.type, 128)), x)

        return in_pieces(b, bits, piece, acc, weights, x)

    return form


def _plain(b, acc, weights, x, wide):
    """One byte of every lane at a time, in IR that LLVM lowers for any CPU."""
    for byte in range(4):
        w = b.and_(b.lshr(weights, constant(I32V, 8 * byte)), constant(I32V, 255))
        v = b.ashr(b.shl(x, constant(I32V, 24 - 8 * byte)), constant(I32V, 24))
        acc = b.add(acc, b.mul(w, v))
    return acc


_FORMS = {
    "amx": _vnni(512),
    "avx512vnni": _vnni(512),
    "avxvnni": _vnni(256),
    "avx2": _pair_sums(256, "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    "ssse3": _pair_sums(128, "llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
    "generic": _plain,
}

HAS_AMX = ISA == "amx"
_HAS_32_REGISTERS = ISA in ("amx", "avx512vnni")
# Rows of the widest tile: two accumulators a row must fit the registers.
MAX_TILE = 8 if _HAS_32_REGISTERS else 4
# The same where weights are unpacked already and leave more registers.
WIDE_TILE = 12 if _HAS_32_REGISTERS else 4
