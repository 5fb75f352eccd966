"""Q4_0 and Q4_1: blocks of 32 values of 4 bits. Owns their packed form, micro-kernels and values.

    Q4_0  value d * (q - 8)   file d qs[16]      packed d[16]f16, 4 lines           (same size)
    Q4_1  value d * q + m     file d m qs[16]    packed d[16]f16 m[16]f16, 4 lines  (same size)

Byte i of qs holds value i in its low and value 16 + i in its high nibble.
"""

from __future__ import annotations

from kernels.cpu.embed import embed
from kernels.cpu.formats.parts import fetch_ahead, move_words
from kernels.cpu.layout import ACT_D, ACT_NSUM, ACT_S
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled,
    add_scaled_dots,
    begin_short,
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
    low_nibbles,
    offset_tile,
    store1_f32,
    store1_u16,
    store_f,
)
from kernels.cpu.weight_format import Format, marker
from kernels.cpu.wide import LEAST, SCALE, UNPACKED_BYTES, put_weights

_BYTES_0, _BYTES_1 = 32 + 4 * 64, 64 + 4 * 64
Q4_0 = Format("Q4_0", 32, 18, _BYTES_0, bits=4, zero=8)
Q4_1 = Format("Q4_1", 32, 20, _BYTES_1, bits=4, has_least=True)


@inline_part
def _dots(acc, lines, x, stride):
    short = begin_short(acc)
    for j in range(4):
        v = load_i(lines + 64 * j)
        short = dot4_short(short, low_nibbles(v), x + 4 * j, stride)
        short = dot4_short(short, high_nibbles(v), x + 16 + 4 * j, stride)
    return end_short(acc, short)


@kernel_part
def _tile_0(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p = w + _BYTES_0 * b
        fetch_ahead(p, _BYTES_0)
        acc = offset_tile(f, x + ACT_NSUM * nb + 4 * b, stride, i32(3))  # -8 * sum
        acc = _dots(acc, p + 32, x + 32 * b, stride)
        f = add_scaled_dots(f, acc, load_f16(p), x + ACT_D * nb + 4 * b, stride)
    return f


@kernel_part
def _tile_1(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p = w + _BYTES_1 * b
        fetch_ahead(p, _BYTES_1)
        acc = _dots(int_tile(f), p + 64, x + 32 * b, stride)
        f = add_scaled_dots(f, acc, load_f16(p), x + ACT_D * nb + 4 * b, stride)
        f = add_scaled(f, load_f16(p + 32), x + ACT_S * nb + 4 * b, stride)
    return f


@inline_part
def _spread_lines(lines, out, zero):
    for j in range(4):
        v = load_i(lines + 64 * j)
        put_weights(out, j, low_nibbles(v), zero)
        put_weights(out, j + 4, high_nibbles(v), zero)


@kernel_part
def _spread_0(w, out, k):
    for b in range(k // 32):
        p, to = w + _BYTES_0 * b, out + UNPACKED_BYTES * b
        _spread_lines(p + 32, to, i32(8))
        store_f(to + SCALE, load_f16(p))


@kernel_part
def _spread_1(w, out, k):
    for b in range(k // 32):
        p, to = w + _BYTES_1 * b, out + UNPACKED_BYTES * b
        _spread_lines(p + 64, to, i32(0))
        store_f(to + SCALE, load_f16(p))
        store_f(to + LEAST, load_f16(p + 32))


@kernel_part
def _pack_0(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    move_words(src + 2, dst + 32, lane, 4)


@kernel_part
def _pack_1(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    store1_u16(dst + 32 + 2 * lane, load1_u16(src + 2))
    move_words(src + 4, dst + 64, lane, 4)


@kernel_part
def _unpack_0(src, lane, dst, scale):
    d = load1_f16(src + 2 * lane)
    for i in range(16):
        byte = load1_u8(src + 32 + 64 * (i // 4) + 4 * lane + i % 4)
        store1_f32(dst + 4 * i, d * f32((byte & 15) - 8) * scale)
        store1_f32(dst + 4 * (i + 16), d * f32((byte >> 4) - 8) * scale)


@kernel_part
def _unpack_1(src, lane, dst, scale):
    d, m = load1_f16(src + 2 * lane), load1_f16(src + 32 + 2 * lane)
    for i in range(16):
        byte = load1_u8(src + 64 + 64 * (i // 4) + 4 * lane + i % 4)
        store1_f32(dst + 4 * i, (d * f32(byte & 15) + m) * scale)
        store1_f32(dst + 4 * (i + 16), (d * f32(byte >> 4) + m) * scale)


_q4_0 = marker(Q4_0, _tile_0, _pack_0, _unpack_0, _spread_0)
_q4_1 = marker(Q4_1, _tile_1, _pack_1, _unpack_1, _spread_1)


def matmul_q4_0(op, step, tid):
    matmul(op, step, tid, _q4_0())


def embed_q4_0(op, step, tid):
    embed(op, step, tid, _q4_0())


def repack_q4_0(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q4_0())


def matmul_q4_1(op, step, tid):
    matmul(op, step, tid, _q4_1())


def embed_q4_1(op, step, tid):
    embed(op, step, tid, _q4_1())


def repack_q4_1(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q4_1())
