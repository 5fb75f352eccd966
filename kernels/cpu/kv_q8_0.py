"""Keys and values of 8 bits: value d * q, d = the block's largest magnitude / 127.

Owns how one position enters a head's part of a page and how the part becomes float32; knows no
attention. Keys: q (dim, PAGE) i8, d (dim / 32, PAGE) f16. Values: q (PAGE, dim) i8, d (PAGE, dim / 32) f16.
"""

from kernels.cpu.kv_types import KV_BLOCK
from kernels.cpu.layout import PAGE
from kernels.cpu.simd import (
    f32,
    hmax,
    inline_part,
    kernel_part,
    load1_f16,
    load_f16,
    load_i8_f,
    rint,
    scatter_i8,
    splat,
    store1_f16,
    store_f,
    store_i8,
    to_i,
    vabs,
    vmax,
)


@inline_part
def _block(low, high):
    """32 floats as two vectors -> their q, their d."""
    peak = hmax(vmax(vabs(low), vabs(high)))
    inverse = splat(f32(127.0) / peak if peak > 0 else f32(0.0))
    return to_i(rint(low * inverse)), to_i(rint(high * inverse)), peak / f32(127.0)


@kernel_part
def append_key(part, offset, low, high, block, dim):
    q0, q1, d = _block(low, high)
    at = part + PAGE * KV_BLOCK * block + offset
    scatter_i8(at, q0, PAGE)
    scatter_i8(at + 16 * PAGE, q1, PAGE)
    store1_f16(part + PAGE * dim + 2 * (block * PAGE + offset), d)


@kernel_part
def append_value(part, offset, low, high, block, dim):
    q0, q1, d = _block(low, high)
    at = part + offset * dim + KV_BLOCK * block
    store_i8(at, q0)
    store_i8(at + 16, q1)
    store1_f16(part + PAGE * dim + 2 * (offset * (dim // KV_BLOCK) + block), d)


@kernel_part
def widen_keys(part, dim, dst):
    scales = part + PAGE * dim
    for d in range(dim):
        at = PAGE * d
        scale = scales + 2 * PAGE * (d // KV_BLOCK)
        store_f(dst + 4 * at, load_i8_f(part + at) * load_f16(scale))
        store_f(dst + 4 * at + 64, load_i8_f(part + at + 16) * load_f16(scale + 32))


@kernel_part
def widen_values(part, dim, dst):
    scales = part + PAGE * dim
    for block in range(PAGE * dim // KV_BLOCK):
        at = KV_BLOCK * block
        d = splat(load1_f16(scales + 2 * block))
        store_f(dst + 4 * at, load_i8_f(part + at) * d)
        store_f(dst + 4 * at + 64, load_i8_f(part + at + 16) * d)
