"""Q8_0: blocks of 32 values of 8 bits. Owns its packed form, micro-kernel and values.

value d * q    file d qs[32] i8    packed d[16]f16, 8 lines of q + 128  (same size)
"""

from __future__ import annotations

from kernels.cpu.embed import embed
from kernels.cpu.formats.parts import fetch_ahead
from kernels.cpu.layout import ACT_D, ACT_NSUM
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled_dots,
    dot4_eight,
    f32,
    i32,
    kernel_part,
    load1_f16,
    load1_i32,
    load1_u8,
    load1_u16,
    load_f16,
    load_i,
    start_eight,
    store1_f32,
    store1_i32,
    store1_u16,
    store_f,
)
from kernels.cpu.weight_format import Format, marker
from kernels.cpu.wide import SCALE, UNPACKED_BYTES, put_weights

_BYTES = 32 + 8 * 64
Q8_0 = Format("Q8_0", 32, 34, _BYTES, zero=128)

_ADD_128 = -0x7F7F7F80  # 0x80808080: -128..127 -> 0..255 in every byte


@kernel_part
def _tile(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p, xb = w + _BYTES * b, x + 32 * b
        fetch_ahead(p, _BYTES)
        acc = start_eight(f, x + ACT_NSUM * nb + 4 * b, stride)
        for j in range(8):
            acc = dot4_eight(acc, load_i(p + 32 + 64 * j), xb + 4 * j, stride)
        f = add_scaled_dots(f, acc, load_f16(p), x + ACT_D * nb + 4 * b, stride)
    return f


@kernel_part
def _spread(w, out, k):
    for b in range(k // 32):
        p, to = w + _BYTES * b, out + UNPACKED_BYTES * b
        for j in range(8):
            put_weights(to, j, load_i(p + 32 + 64 * j), i32(128))
        store_f(to + SCALE, load_f16(p))


@kernel_part
def _pack(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    for i in range(8):
        word = load1_i32(src + 2 + 4 * i) ^ i32(_ADD_128)
        store1_i32(dst + 32 + 64 * i + 4 * lane, word)


@kernel_part
def _unpack(src, lane, dst, scale):
    d = load1_f16(src + 2 * lane)
    for i in range(32):
        q = load1_u8(src + 32 + 64 * (i // 4) + 4 * lane + i % 4) - 128
        store1_f32(dst + 4 * i, d * f32(q) * scale)


_q8_0 = marker(Q8_0, _tile, _pack, _unpack, _spread)


def matmul_q8_0(op, step, tid):
    matmul(op, step, tid, _q8_0())


def embed_q8_0(op, step, tid):
    embed(op, step, tid, _q8_0())


def repack_q8_0(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q8_0())
