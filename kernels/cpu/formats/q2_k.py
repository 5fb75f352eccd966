"""Q2_K: superblocks of 256 values of 2 bits. Owns its packed form, micro-kernel and values.

    value (d * scale) * q - dmin * minimum, scale and minimum of 4 bits for every 16 values
    file sc[16] qs[64] d dmin    packed d[16]f16 dmin[16]f16, 16 x sc[16]u8, 16 lines  (same size)

Each half of a superblock holds four blocks of 32: bits 2s and 2s + 1 of 32 bytes of qs are block s.
A byte of sc holds a scale in its low and a minimum in its high nibble.
"""

from __future__ import annotations

from kernels.cpu.embed import embed
from kernels.cpu.formats.parts import fetch_ahead, move_words
from kernels.cpu.layout import ACT_D, ACT_NSUM16
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled_dots,
    begin_short,
    dot4_short,
    end_short,
    f32,
    i32,
    inline_part,
    int_tile,
    kernel_part,
    load1_f16,
    load1_u8,
    load1_u16,
    load_f16,
    load_i,
    load_u4_f,
    offset_tile,
    pairs_at,
    store1_f32,
    store1_u8,
    store1_u16,
)
from kernels.cpu.weight_format import Format, marker

_SCALES, _LINES = 64, 64 + 256  # offsets in a packed superblock
_BYTES = _LINES + 16 * 64
Q2_K = Format("Q2_K", 256, 84, _BYTES, bits=2)


@inline_part
def _add_run(f, p, run, lines, shift, x, nsum, xd, stride):
    """f += run (of 16 values) of the superblock at p, given its lines and activations."""
    acc = int_tile(f)
    short = begin_short(acc)
    for j in range(4):
        short = dot4_short(short, pairs_at(load_i(lines + 64 * j), shift), x + 4 * j, stride)
    acc = end_short(acc, short)
    scales = p + _SCALES + 16 * run
    f = add_scaled_dots(f, acc, load_f16(p) * load_u4_f(scales, i32(0)), xd, stride)
    minus_sums = offset_tile(f, nsum, stride, i32(0))
    least = load_f16(p + 32) * load_u4_f(scales, i32(4))
    return add_scaled_dots(f, minus_sums, least, xd, stride)


@kernel_part
def _tile(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p, s = w + _BYTES * (b // 8), b % 8
        fetch_ahead(p + _BYTES // 8 * s, _BYTES // 8)
        lines, shift = p + _LINES + 512 * (s // 4), i32(2 * (s % 4))
        xb, nsum, xd = x + 32 * b, x + ACT_NSUM16 * nb + 8 * b, x + ACT_D * nb + 4 * b
        f = _add_run(f, p, 2 * s, lines, shift, xb, nsum, xd, stride)
        f = _add_run(f, p, 2 * s + 1, lines + 256, shift, xb + 16, nsum + 4, xd, stride)
    return f


@kernel_part
def _pack(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src + 80))
    store1_u16(dst + 32 + 2 * lane, load1_u16(src + 82))
    for run in range(16):
        store1_u8(dst + _SCALES + 16 * run + lane, load1_u8(src + run))
    move_words(src + 16, dst + _LINES, lane, 16)


@kernel_part
def _unpack(src, lane, dst, scale):
    d, dmin = load1_f16(src + 2 * lane), load1_f16(src + 32 + 2 * lane)
    for i in range(256):
        half, s, word = i // 128, i % 128 // 32, i % 32 // 4
        byte = load1_u8(src + _LINES + 64 * (8 * half + word) + 4 * lane + i % 4)
        both = load1_u8(src + _SCALES + 16 * (i // 16) + lane)
        q = (byte >> i32(2 * s)) & i32(3)
        value = d * f32(both & i32(15)) * f32(q) - dmin * f32(both >> i32(4))
        store1_f32(dst + 4 * i, value * scale)


_q2_k = marker(Q2_K, _tile, _pack, _unpack)


def matmul_q2_k(op, step, tid):
    matmul(op, step, tid, _q2_k())


def embed_q2_k(op, step, tid):
    embed(op, step, tid, _q2_k())


def repack_q2_k(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q2_k())
