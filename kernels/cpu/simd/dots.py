"""The dot product of bytes that all quantised matmuls rest on, one form per instruction set.

Owns the only instruction that differs between hosts: 16 lanes of int32 += sums of 4 products of an
unsigned weight byte and a signed activation byte of -127..127. Exact in every form, so results never
depend on the host. Knows no format.

Without a dot-product instruction the way is pairs into int16, those into int32. Small weights leave
room in int16, so that several words add up there first, as *short sums*; how many: `words_in_short`.
Weights of 8 bits would overflow int16; they are made signed there, -128..127, and activations take their
signs. Elsewhere the same is unsigned, less 128 times the sum of the activations.
"""

from __future__ import annotations

from llvmlite import ir

from kernels.cpu import kernel_cache
from kernels.cpu.simd.types import I16, I32V, as_bytes, call, constant, in_pieces

ISA = kernel_cache.configure().isa


def words_in_short(bits):
    """How many words of weights of so many bits a short sum takes: each adds two products a lane."""
    return max(1, min(8, 32767 // (2 * 127 * (2**bits - 1))))


def emit_begin_short(b, acc):
    """What short sums on top of acc start from."""
    return constant(I32V, 0) if _SHORTS else acc


def emit_dot4_short(b, short, weights, x):
    """short sums + weights (16 x i32 holding bytes) . x (the same)"""
    return _FORMS[ISA](b, short, weights, x)


def emit_end_short(b, acc, short):
    """acc + short sums, as int32."""
    return _sum_pairs(b, acc, short) if _SHORTS else short


def emit_dot4_eight(b, acc, weights, x):
    """acc + weights of 8 bits . x; where HAS_SIGNED_EIGHT, weights less 128."""
    if not HAS_SIGNED_EIGHT:
        return _FORMS[ISA](b, acc, weights, x)
    return _sum_pairs(b, acc, _signed_pairs(b, b.xor(weights, constant(I32V, _TOP_BITS)), x))


def _vnni(bits):
    """vpdpbusd; registers of 256 bits encode it for AVX-VNNI as well as for AVX-512."""

    def form(b, acc, weights, x):
        def piece(acc, weights, x):
            operands = [acc, as_bytes(b, weights), as_bytes(b, x)]
            return call(b, f"llvm.x86.avx512.vpdpbusd.{bits}", acc.type, operands)

        return in_pieces(b, bits, piece, acc, weights, x)

    return form


def _words(vector):
    """The type of the same register as int16."""
    return ir.VectorType(I16, 2 * vector.type.count)


def _pairs(b, short, weights, x):
    """int16 += sums of two products."""

    def piece(short, weights, x):
        words = _words(short)
        pairs = call(b, _PAIRS, words, [as_bytes(b, weights), as_bytes(b, x)])
        return b.bitcast(_in_order(b, b.add(b.bitcast(short, words), pairs)), short.type)

    return in_pieces(b, _BITS, piece, short, weights, x)


def _in_order(b, v):
    """v, from here on a value of its own: else LLVM adds up row by row, and runs out of registers."""
    same = ir.InlineAsm(ir.FunctionType(v.type, [v.type]), "", "=x,0")
    return b.call(same, [v])


def _signed_pairs(b, weights, x):
    """Sums of two products of weights -128..127: |w| * (x with w's sign). 2 * 128 * 127 fits int16."""

    def piece(weights, x):
        ints, words, weights, x = x.type, _words(x), as_bytes(b, weights), as_bytes(b, x)
        absolute = f"llvm.abs.v{x.type.count}i8"
        magnitudes = call(b, absolute, x.type, [weights, _NOT_POISON])
        signed = call(b, _SIGN, x.type, [x, weights])
        return b.bitcast(call(b, _PAIRS, words, [magnitudes, signed]), ints)

    return in_pieces(b, _BITS, piece, weights, x)


def _sum_pairs(b, acc, short):
    """int32 += sums of two int16."""

    def piece(acc, short):
        words = _words(short)
        operands = [b.bitcast(short, words), constant(words, 1)]
        return _in_order(b, b.add(acc, call(b, _PAIR_SUMS, acc.type, operands)))

    return in_pieces(b, _BITS, piece, acc, short)


def _plain(b, acc, weights, x):
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
    "avx2": _pairs,
    "ssse3": _pairs,
    "generic": _plain,
}
# Bits of a register; pairs of byte products into int16, pairs of int16 into int32, and signs.
_REGISTERS = {
    "avx2": (256, "avx2.pmadd.ub.sw", "avx2.pmadd.wd", "avx2.psign.b"),
    "ssse3": (128, "ssse3.pmadd.ub.sw.128", "sse2.pmadd.wd", "ssse3.psign.b.128"),
}
_SHORTS = ISA in _REGISTERS
_BITS, *_NAMES = _REGISTERS.get(ISA, (0, "", "", ""))
_PAIRS, _PAIR_SUMS, _SIGN = (f"llvm.x86.{name}" for name in _NAMES)
_TOP_BITS = -0x7F7F7F80  # 0x80808080
_NOT_POISON = ir.Constant(ir.IntType(1), 0)  # |-128| is 128, unsigned

HAS_SIGNED_EIGHT = _SHORTS
HAS_AMX = ISA == "amx"
_HAS_32_REGISTERS = ISA in ("amx", "avx512vnni")
# Rows of the widest tile: two accumulators a row must fit the registers.
MAX_TILE = 8 if _HAS_32_REGISTERS else 4
