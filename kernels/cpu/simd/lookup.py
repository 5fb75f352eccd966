"""A table of 16 bytes looked up by every byte of a vector, one form per instruction set.

Owns the byte shuffles; knows no format's table.
"""

from __future__ import annotations

from llvmlite import ir

from kernels.cpu.simd.dots import ISA
from kernels.cpu.simd.types import I8, as_bytes, call, constant, define, i32x16, in_pieces

_SHUFFLES = {
    "amx": (512, "llvm.x86.avx512.pshuf.b.512"),
    "avx512vnni": (512, "llvm.x86.avx512.pshuf.b.512"),
    "avxvnni": (256, "llvm.x86.avx2.pshuf.b"),
    "avx2": (256, "llvm.x86.avx2.pshuf.b"),
    "ssse3": (128, "llvm.x86.ssse3.pshuf.b.128"),
}


def define_lookup(table):
    """An intrinsic: bytes 0..15 of an i32x16 -> table[byte], as bytes. Table: 16 values 0..255."""
    emit = _shuffled if ISA in _SHUFFLES else _selected
    return define(i32x16, (i32x16,), lambda b, a: emit(b, a[0], table))


def _shuffled(b, indices, table):
    bits, name = _SHUFFLES[ISA]
    in_register = ir.Constant(ir.VectorType(I8, bits // 8), list(table) * (bits // 128))

    def piece(part):
        found = call(b, name, in_register.type, [in_register, as_bytes(b, part)])
        return b.bitcast(found, part.type)

    return in_pieces(b, bits, piece, indices)


def _selected(b, indices, table):
    """Without a shuffle: one comparison for each entry."""
    found = wanted = as_bytes(b, indices)
    for index, value in enumerate(table):
        hit = b.icmp_unsigned("==", wanted, constant(wanted.type, index))
        found = b.select(hit, constant(wanted.type, value), found)
    return b.bitcast(found, indices.type)
