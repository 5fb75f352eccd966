"""Q8_0, and Q8_F that others are turned into. Owns their packed form, micro-kernels and values.

    Q8_0  value d * q  file d f16, qs[32] i8  packed d[16]f16, 8 lines of q + 128  (same size)
    Q8_F  value d * q  file d f32, qs[32] i8  packed d[16]f32, 8 lines of q + 128  (same size)

Q8_F exists in memory alone: formats without a kernel of their own are converted to it at load. Its
scale is a float32 because theirs is a product of two numbers.
"""

from __future__ import annotations

from kernels.cpu.embed import embed
from kernels.cpu.layout import ACT_D, ACT_NSUM
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled_dots,
    dot4_wide,
    f32,
    i32,
    inline_part,
    kernel_part,
    load1_f16,
    load1_f32,
    load1_i32,
    load1_u8,
    load1_u16,
    load_f,
    load_f16,
    load_i,
    offset_tile,
    store1_f32,
    store1_i32,
    store1_u16,
)
from kernels.cpu.weight_format import Format, marker

_BYTES_0, _BYTES_F = 32 + 8 * 64, 64 + 8 * 64
Q8_0 = Format("Q8_0", 32, 34, _BYTES_0)
Q8_F = Format("Q8_F", 32, 36, _BYTES_F)

_ADD_128 = -0x7F7F7F80  # 0x80808080: -128..127 -> 0..255 in every byte


@kernel_part
def _dots(f, b, nb, lines, x, stride):
    acc = offset_tile(f, x + ACT_NSUM * nb + 4 * b, stride, i32(7))  # -128 * sum
    for j in range(8):
        acc = dot4_wide(acc, load_i(lines + 64 * j), x + 32 * b + 4 * j, stride)
    return acc


@kernel_part
def _tile_0(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p = w + _BYTES_0 * b
        acc = _dots(f, b, nb, p + 32, x, stride)
        f = add_scaled_dots(f, acc, load_f16(p), x + ACT_D * nb + 4 * b, stride)
    return f


@kernel_part
def _tile_f(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p = w + _BYTES_F * b
        acc = _dots(f, b, nb, p + 64, x, stride)
        f = add_scaled_dots(f, acc, load_f(p), x + ACT_D * nb + 4 * b, stride)
    return f


@inline_part
def _pack_values(src, dst, lane):
    for i in range(8):
        store1_i32(dst + 64 * i + 4 * lane, load1_i32(src + 4 * i) ^ i32(_ADD_128))


@kernel_part
def _pack_0(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    _pack_values(src + 2, dst + 32, lane)


@kernel_part
def _pack_f(src, dst, lane):
    store1_i32(dst + 4 * lane, load1_i32(src))
    _pack_values(src + 4, dst + 64, lane)


@inline_part
def _unpack_values(lines, lane, d, dst, scale):
    for i in range(32):
        q = load1_u8(lines + 64 * (i // 4) + 4 * lane + i % 4) - 128
        store1_f32(dst + 4 * i, d * f32(q) * scale)


@kernel_part
def _unpack_0(src, lane, dst, scale):
    _unpack_values(src + 32, lane, load1_f16(src + 2 * lane), dst, scale)


@kernel_part
def _unpack_f(src, lane, dst, scale):
    _unpack_values(src + 64, lane, load1_f32(src + 4 * lane), dst, scale)


_q8_0 = marker(Q8_0, _tile_0, _pack_0, _unpack_0)
_q8_f = marker(Q8_F, _tile_f, _pack_f, _unpack_f)


def matmul_q8_0(op, step, tid):
    matmul(op, step, tid, _q8_0())


def embed_q8_0(op, step, tid):
    embed(op, step, tid, _q8_0())


def repack_q8_0(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q8_0())


def matmul_q8_f(op, step, tid):
    matmul(op, step, tid, _q8_f())


def embed_q8_f(op, step, tid):
    embed(op, step, tid, _q8_f())


def repack_q8_f(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q8_f())
