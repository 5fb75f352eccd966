"""Q4_K and Q5_K: superblocks of 8 x 32 values. Owns their packed form, micro-kernels and values.

    value (d * scale) * q - (dmin * minimum), scale and minimum of 6 bits for every 32 values
    Q4_K  file d dmin sc[12] qs[128]         packed d dmin, 8 x (sc[16]u8 mn[16]u8), 32 lines      (x 1.03)
    Q5_K  file d dmin sc[12] qh[32] qs[128]  packed d dmin, 8 x (sc[16]u8 mn[16]u8), 8 + 32 lines  (x 1.02)

Blocks of 32 come in pairs: the low nibbles of 32 bytes of qs, then the high nibbles of the same bytes.
Bit s of byte i of qh is the fifth bit of value i of block s.
"""

from __future__ import annotations

from kernels.cpu.embed import embed
from kernels.cpu.formats.parts import fetch_ahead, move_words, six_bit_pair
from kernels.cpu.layout import ACT_D, ACT_S
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled,
    add_scaled_dots,
    begin_short,
    bit_to_4,
    dot4_short,
    end_short,
    f32,
    high_nibbles,
    i32,
    inline_part,
    int_tile,
    kernel_part,
    load1_f16,
    load1_u8,
    load1_u16,
    load_f16,
    load_i,
    load_u8_f,
    low_nibbles,
    store1_f32,
    store1_u8,
    store1_u16,
    store_f,
    zeros,
)
from kernels.cpu.weight_format import Format, marker
from kernels.cpu.wide import LEAST, SCALE, UNPACKED_BYTES, put_weights

_SCALES, _LINES = 64, 64 + 256  # offsets in a packed superblock
_BYTES_4, _BYTES_5 = _LINES + 32 * 64, _LINES + 40 * 64
Q4_K = Format("Q4_K", 256, 144, _BYTES_4, bits=4, has_least=True)
Q5_K = Format("Q5_K", 256, 176, _BYTES_5, bits=5, has_least=True)


@inline_part
def _add_block(f, acc, p, s, x, b, nb, stride):
    """f += what block s of the superblock at p (block b of the row) adds, given its dot products."""
    scales = p + _SCALES + 32 * s
    scale, least = load_f16(p) * load_u8_f(scales), load_f16(p + 32) * load_u8_f(scales + 16)
    f = add_scaled_dots(f, acc, scale, x + ACT_D * nb + 4 * b, stride)
    return add_scaled(f, zeros() - least, x + ACT_S * nb + 4 * b, stride)


@kernel_part
def _tile_4(f, w, x, stride, k):
    nb = k // 32
    for pair in range(nb // 2):
        p, s, b = w + _BYTES_4 * (pair // 4), 2 * (pair % 4), 2 * pair
        fetch_ahead(p + _BYTES_4 // 8 * s, _BYTES_4 // 4)
        lines = p + _LINES + 256 * s
        xb, acc = x + 32 * b, int_tile(f)
        short = begin_short(acc)
        for j in range(8):
            short = dot4_short(short, low_nibbles(load_i(lines + 64 * j)), xb + 4 * j, stride)
        f = _add_block(f, end_short(acc, short), p, s, x, b, nb, stride)
        short = begin_short(acc)
        for j in range(8):
            short = dot4_short(short, high_nibbles(load_i(lines + 64 * j)), xb + 32 + 4 * j, stride)
        f = _add_block(f, end_short(acc, short), p, s + 1, x, b + 1, nb, stride)
    return f


@kernel_part
def _tile_5(f, w, x, stride, k):
    nb = k // 32
    for pair in range(nb // 2):
        p, s, b = w + _BYTES_5 * (pair // 4), 2 * (pair % 4), 2 * pair
        fetch_ahead(p + _BYTES_5 // 8 * s, _BYTES_5 // 4)
        fifths, lines = p + _LINES, p + _LINES + 512 + 256 * s
        xb, acc = x + 32 * b, int_tile(f)
        for start in range(0, 8, 4):
            short = begin_short(acc)
            for j in range(start, start + 4):
                v = low_nibbles(load_i(lines + 64 * j))
                u = bit_to_4(load_i(fifths + 64 * j), i32(s))
                short = dot4_short(short, v | u, xb + 4 * j, stride)
            acc = end_short(acc, short)
        f = _add_block(f, acc, p, s, x, b, nb, stride)
        acc = int_tile(f)
        for start in range(0, 8, 4):
            short = begin_short(acc)
            for j in range(start, start + 4):
                v = high_nibbles(load_i(lines + 64 * j))
                u = bit_to_4(load_i(fifths + 64 * j), i32(s + 1))
                short = dot4_short(short, v | u, xb + 32 + 4 * j, stride)
            acc = end_short(acc, short)
        f = _add_block(f, acc, p, s + 1, x, b + 1, nb, stride)
    return f


@inline_part
def _spread_scales(p, s, to):
    scales = p + _SCALES + 32 * s
    store_f(to + SCALE, load_f16(p) * load_u8_f(scales))
    store_f(to + LEAST, zeros() - load_f16(p + 32) * load_u8_f(scales + 16))


@kernel_part
def _spread_4(w, out, k):
    for pair in range(k // 64):
        p, s = w + _BYTES_4 * (pair // 4), 2 * (pair % 4)
        first, second = out + 2 * UNPACKED_BYTES * pair, out + (2 * pair + 1) * UNPACKED_BYTES
        for j in range(8):
            v = load_i(p + _LINES + 256 * s + 64 * j)
            put_weights(first, j, low_nibbles(v), i32(0))
            put_weights(second, j, high_nibbles(v), i32(0))
        _spread_scales(p, s, first)
        _spread_scales(p, s + 1, second)


@kernel_part
def _spread_5(w, out, k):
    for pair in range(k // 64):
        p, s = w + _BYTES_5 * (pair // 4), 2 * (pair % 4)
        first, second = out + 2 * UNPACKED_BYTES * pair, out + (2 * pair + 1) * UNPACKED_BYTES
        for j in range(8):
            v, fifths = load_i(p + _LINES + 512 + 256 * s + 64 * j), load_i(p + _LINES + 64 * j)
            put_weights(first, j, low_nibbles(v) | bit_to_4(fifths, i32(s)), i32(0))
            put_weights(second, j, high_nibbles(v) | bit_to_4(fifths, i32(s + 1)), i32(0))
        _spread_scales(p, s, first)
        _spread_scales(p, s + 1, second)


@inline_part
def _pack_scales(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    store1_u16(dst + 32 + 2 * lane, load1_u16(src + 2))
    for s in range(8):
        scale, least = six_bit_pair(src + 4, s)
        store1_u8(dst + _SCALES + 32 * s + lane, scale)
        store1_u8(dst + _SCALES + 16 + 32 * s + lane, least)


@kernel_part
def _pack_4(src, dst, lane):
    _pack_scales(src, dst, lane)
    move_words(src + 16, dst + _LINES, lane, 32)


@kernel_part
def _pack_5(src, dst, lane):
    _pack_scales(src, dst, lane)
    move_words(src + 16, dst + _LINES, lane, 40)  # qh then qs


@inline_part
def _block_scales(src, lane, s):
    """(d * scale, dmin * minimum) of block s."""
    scales = src + _SCALES + 32 * s + lane
    scale = load1_f16(src + 2 * lane) * f32(load1_u8(scales))
    return scale, load1_f16(src + 32 + 2 * lane) * f32(load1_u8(scales + 16))


@inline_part
def _nibble(lines, lane, s, i):
    byte = load1_u8(lines + 64 * (8 * (s // 2) + i // 4) + 4 * lane + i % 4)
    return byte >> i32(4) if s % 2 else byte & i32(15)


@kernel_part
def _unpack_4(src, lane, dst, scale):
    for s in range(8):
        d, m = _block_scales(src, lane, s)
        for i in range(32):
            q = _nibble(src + _LINES, lane, s, i)
            store1_f32(dst + 128 * s + 4 * i, (d * f32(q) - m) * scale)


@kernel_part
def _unpack_5(src, lane, dst, scale):
    for s in range(8):
        d, m = _block_scales(src, lane, s)
        for i in range(32):
            fifths = load1_u8(src + _LINES + 64 * (i // 4) + 4 * lane + i % 4)
            q = _nibble(src + _LINES + 512, lane, s, i) | ((fifths >> i32(s)) & i32(1)) << i32(4)
            store1_f32(dst + 128 * s + 4 * i, (d * f32(q) - m) * scale)


_q4_k = marker(Q4_K, _tile_4, _pack_4, _unpack_4, _spread_4)
_q5_k = marker(Q5_K, _tile_5, _pack_5, _unpack_5, _spread_5)


def matmul_q4_k(op, step, tid):
    matmul(op, step, tid, _q4_k())


def embed_q4_k(op, step, tid):
    embed(op, step, tid, _q4_k())


def repack_q4_k(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q4_k())


def matmul_q5_k(op, step, tid):
    matmul(op, step, tid, _q5_k())


def embed_q5_k(op, step, tid):
    embed(op, step, tid, _q5_k())


def repack_q5_k(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q5_k())
