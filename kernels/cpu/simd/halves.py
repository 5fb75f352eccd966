"""float16 <-> float32, for one value or a vector: by the CPU where it can, else by integer arithmetic.

Owns the two conversions (round to nearest even, subnormals, infinities and NaN kept); knows no memory.
x86 without F16C (before 2012) has no instruction for it, and LLVM would call a library function that
compiled kernels do not have.
"""

from __future__ import annotations

from llvmlite import ir

from kernels.cpu import kernel_cache
from kernels.cpu.simd.types import F16, F16V, F32, F32V, I16, I16V, I32, I32V

IN_HARDWARE = kernel_cache.has_half_conversion()

# How a half, and 16 of them, are held between memory and conversion.
HALF, HALFV = (F16, F16V) if IN_HARDWARE else (I16, I16V)


def widen(b, half):
    """HALF or HALFV -> float32."""
    vector = isinstance(half.type, ir.VectorType)
    if IN_HARDWARE:
        return b.fpext(half, F32V if vector else F32)
    ints, floats = (I32V, F32V) if vector else (I32, F32)
    bits = b.zext(half, ints)
    sign = b.shl(b.and_(bits, _all(ints, 0x8000)), _all(ints, 16))
    # Exponent and mantissa in a float32's place are too small by 2^112, subnormals included.
    magnitude = b.shl(b.and_(bits, _all(ints, 0x7FFF)), _all(ints, 13))
    finite = b.bitcast(b.fmul(b.bitcast(magnitude, floats), _all(floats, 2.0**112)), ints)
    special = b.icmp_unsigned(">=", magnitude, _all(ints, 0x0F800000))
    magnitude = b.select(special, b.or_(magnitude, _all(ints, 0x7F800000)), finite)
    return b.bitcast(b.or_(sign, magnitude), floats)


def narrow(b, value):
    """float32 -> HALF or HALFV."""
    vector = isinstance(value.type, ir.VectorType)
    if IN_HARDWARE:
        return b.fptrunc(value, F16V if vector else F16)
    ints, floats = (I32V, F32V) if vector else (I32, F32)
    bits = b.bitcast(value, ints)
    sign = b.lshr(b.and_(bits, _all(ints, 0x80000000)), _all(ints, 16))
    magnitude = b.and_(bits, _all(ints, 0x7FFFFFFF))
    # Normal: rebias the exponent by -112; adding half a unit, less one where even, rounds.
    odd = b.and_(b.lshr(magnitude, _all(ints, 13)), _all(ints, 1))
    rounded = b.add(b.add(magnitude, odd), _all(ints, 0xFFF - (112 << 23)))
    normal = b.lshr(rounded, _all(ints, 13))
    # Subnormal (below 2^-14): one unit of 0.5 is 2^-24, so adding 0.5 rounds to whole subnormals.
    shifted = b.fadd(b.bitcast(magnitude, floats), _all(floats, 0.5))
    subnormal = b.sub(b.bitcast(shifted, ints), _all(ints, 126 << 23))
    small = b.icmp_unsigned("<", magnitude, _all(ints, 113 << 23))
    result = b.select(small, subnormal, normal)
    # From 2^16 on: infinity, or NaN for NaN.
    large = b.icmp_unsigned(">=", magnitude, _all(ints, 143 << 23))
    is_nan = b.icmp_unsigned(">", magnitude, _all(ints, 255 << 23))
    result = b.select(large, b.select(is_nan, _all(ints, 0x7E00), _all(ints, 0x7C00)), result)
    return b.trunc(b.or_(sign, result), I16V if vector else I16)


def _all(llvm_type, value):
    if isinstance(llvm_type, ir.VectorType):
        return ir.Constant(llvm_type, [value] * llvm_type.count)
    return ir.Constant(llvm_type, value)
