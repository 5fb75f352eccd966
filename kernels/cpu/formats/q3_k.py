"""Q3_K: superblocks of 256 values of 3 bits. Owns its packed form, micro-kernel and values.

    value (d * (scale - 32)) * (q - 4), a scale of 6 bits for every 16 values
    file hmask[32] qs[64] sc[12] d    packed d[16]f16, 16 x (scale - 32)[16]i8, 8 + 16 lines  (x 1.04)

Each half of a superblock holds four blocks of 32: bits 2s and 2s + 1 of 32 bytes of qs are the lower
bits of block s, and bit s (second half: 4 + s) of hmask's 32 bytes are its third bits.
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
    bit_to_2,
    dot4_short,
    end_short,
    f32,
    i32,
    inline_part,
    kernel_part,
    load1_f16,
    load1_i8,
    load1_u8,
    load1_u16,
    load_f16,
    load_i,
    load_i8_f,
    offset_tile,
    pairs_at,
    store1_f32,
    store1_u8,
    store1_u16,
)
from kernels.cpu.weight_format import Format, marker

_SCALES, _THIRDS, _LINES = 32, 32 + 256, 32 + 256 + 512  # offsets in a packed superblock
_BYTES = _LINES + 16 * 64
Q3_K = Format("Q3_K", 256, 110, _BYTES, bits=3)


@inline_part
def _add_run(f, scale, lines, thirds, s, x, nsum, xd, stride):
    """f += 16 values (one scale) of block s of a superblock, given their lines and activations."""
    acc = offset_tile(f, nsum, stride, i32(2))  # -4 * sum
    short = begin_short(acc)
    for j in range(4):
        v = pairs_at(load_i(lines + 64 * j), i32(2 * (s % 4)))
        v = v | bit_to_2(load_i(thirds + 64 * j), i32(s))
        short = dot4_short(short, v, x + 4 * j, stride)
    acc = end_short(acc, short)
    return add_scaled_dots(f, acc, scale, xd, stride)


@kernel_part
def _tile(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p, s = w + _BYTES * (b // 8), b % 8
        fetch_ahead(p + _BYTES // 8 * s, _BYTES // 8)
        lines, thirds, scales = p + _LINES + 512 * (s // 4), p + _THIRDS, p + _SCALES + 32 * s
        xb, nsum, xd = x + 32 * b, x + ACT_NSUM16 * nb + 8 * b, x + ACT_D * nb + 4 * b
        scale = load_f16(p) * load_i8_f(scales)
        f = _add_run(f, scale, lines, thirds, s, xb, nsum, xd, stride)
        scale = load_f16(p) * load_i8_f(scales + 16)
        f = _add_run(f, scale, lines + 256, thirds + 256, s, xb + 16, nsum + 4, xd, stride)
    return f


@kernel_part
def _pack(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src + 108))
    for run in range(16):  # low nibbles in 8 bytes, upper pairs in 4
        low = load1_u8(src + 96 + run % 8) >> i32(4 * (run // 8))
        upper = load1_u8(src + 104 + run % 4) >> i32(2 * (run // 4))
        scale = (low & i32(15)) | (upper & i32(3)) << i32(4)
        store1_u8(dst + _SCALES + 16 * run + lane, scale - i32(32))
    move_words(src, dst + _THIRDS, lane, 24)  # hmask then qs


@kernel_part
def _unpack(src, lane, dst, scale):
    d = load1_f16(src + 2 * lane)
    for i in range(256):
        half, s, word = i // 128, i // 32, i % 32 // 4
        low = load1_u8(src + _LINES + 64 * (8 * half + word) + 4 * lane + i % 4)
        third = load1_u8(src + _THIRDS + 64 * word + 4 * lane + i % 4) >> i32(s)
        q = ((low >> i32(2 * (s % 4))) & i32(3)) + ((third & i32(1)) << i32(2)) - i32(4)
        run_scale = d * f32(load1_i8(src + _SCALES + 16 * (i // 16) + lane))
        store1_f32(dst + 4 * i, run_scale * f32(q) * scale)


_q3_k = marker(Q3_K, _tile, _pack, _unpack)


def matmul_q3_k(op, step, tid):
    matmul(op, step, tid, _q3_k())


def embed_q3_k(op, step, tid):
    embed(op, step, tid, _q3_k())


def repack_q3_k(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q3_k())
