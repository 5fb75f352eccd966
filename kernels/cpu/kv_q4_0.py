"""Keys and values of 4 bits: value d * (q - 8), d = the block's value of largest magnitude / -8.

Owns how one position enters a head's part of a page and how the part becomes float32; knows no
attention. A byte holds feature j of a block in its low bits and feature j + 16 in its high bits, for
j < 16. Keys: q (dim / 32, 16, PAGE), d (dim / 32, PAGE) f16. Values: q (PAGE, dim / 32, 16),
d (PAGE, dim / 32) f16.
"""

from kernels.cpu.kv_types import KV_BLOCK
from kernels.cpu.layout import PAGE
from kernels.cpu.simd import (
    f32,
    fma,
    hmax,
    i32,
    inline_part,
    kernel_part,
    load1_f16,
    load_f16,
    load_u4_f,
    rint,
    scatter_i8,
    splat,
    store1_f16,
    store_f,
    store_i8,
    to_i,
    vmax,
    vmin,
    zeros,
)

_HALF = KV_BLOCK // 2


@inline_part
def _nibbles(v, inverse):
    return vmin(rint(v * inverse) + splat(f32(8.0)), splat(f32(15.0)))


@inline_part
def _block(low, high):
    """32 floats as two vectors -> 16 bytes, their d."""
    top, bottom = hmax(vmax(low, high)), hmax(zeros() - vmin(low, high))
    d = (top if top >= bottom else -bottom) / f32(-8.0)
    inverse = splat(f32(1.0) / d if d != 0 else f32(0.0))
    return to_i(fma(_nibbles(high, inverse), splat(f32(16.0)), _nibbles(low, inverse))), d


@kernel_part
def append_key(part, offset, low, high, block, dim):
    q, d = _block(low, high)
    scatter_i8(part + PAGE * _HALF * block + offset, q, PAGE)
    store1_f16(part + PAGE * dim // 2 + 2 * (block * PAGE + offset), d)


@kernel_part
def append_value(part, offset, low, high, block, dim):
    q, d = _block(low, high)
    at = offset * (dim // KV_BLOCK) + block
    store_i8(part + _HALF * at, q)
    store1_f16(part + PAGE * dim // 2 + 2 * at, d)


@inline_part
def _values(src, shift, d):
    return (load_u4_f(src, i32(shift)) - splat(f32(8.0))) * d


@kernel_part
def widen_keys(part, dim, dst):
    scales = part + PAGE * dim // 2
    for row in range(dim // 2):
        block, at = row // _HALF, PAGE * row
        scale = scales + 2 * PAGE * block
        d0, d1 = load_f16(scale), load_f16(scale + 32)
        out = dst + 4 * PAGE * (KV_BLOCK * block + row % _HALF)
        store_f(out, _values(part + at, 0, d0))
        store_f(out + 64, _values(part + at + 16, 0, d1))
        store_f(out + 4 * PAGE * _HALF, _values(part + at, 4, d0))
        store_f(out + 4 * PAGE * _HALF + 64, _values(part + at + 16, 4, d1))


@kernel_part
def widen_values(part, dim, dst):
    scales = part + PAGE * dim // 2
    for block in range(PAGE * dim // KV_BLOCK):
        at = _HALF * block
        d = splat(load1_f16(scales + 2 * block))
        store_f(dst + 8 * at, _values(part + at, 0, d))
        store_f(dst + 8 * at + 64, _values(part + at, 4, d))
