"""Q5_0 and Q5_1: blocks of 32 values of 5 bits. Owns their packed form, micro-kernels and values.

    Q5_0  value d * (q - 16)  file d qh[4] qs[16]    packed d[16]f16, fifths, 4 lines           (same size)
    Q5_1  value d * q + m     file d m qh[4] qs[16]  packed d[16]f16 m[16]f16, fifths, 4 lines  (same size)

Byte i of qs holds the lower bits of value i and, in its high nibble, of value 16 + i; bit i of qh is
the fifth bit of value i. Packing turns qh so that bit j of byte i is the fifth bit of value 4j + i:
then one shift gives the fifth bits of a whole word of values.
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
    load1_i32,
    load1_u8,
    load1_u16,
    load_f16,
    load_i,
    low_nibbles,
    offset_tile,
    store1_f32,
    store1_i32,
    store1_u16,
    store_f,
)
from kernels.cpu.weight_format import Format, marker
from kernels.cpu.wide import LEAST, SCALE, UNPACKED_BYTES, put_weights

_BYTES_0, _BYTES_1 = 32 + 5 * 64, 64 + 5 * 64
Q5_0 = Format("Q5_0", 32, 22, _BYTES_0, bits=5, zero=16)
Q5_1 = Format("Q5_1", 32, 24, _BYTES_1, bits=5, has_least=True)


@inline_part
def _dots(acc, lines, x, stride):
    """lines: the line of fifth bits, then four of nibbles."""
    fifths = load_i(lines)
    for start in range(0, 4, 2):
        short = begin_short(acc)
        for j in range(start, start + 2):
            v, low, high = load_i(lines + 64 + 64 * j), i32(j), i32(j + 4)
            short = dot4_short(short, low_nibbles(v) | bit_to_4(fifths, low), x + 4 * j, stride)
            xh = x + 16 + 4 * j
            short = dot4_short(short, high_nibbles(v) | bit_to_4(fifths, high), xh, stride)
        acc = end_short(acc, short)
    return acc


@kernel_part
def _tile_0(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p = w + _BYTES_0 * b
        fetch_ahead(p, _BYTES_0)
        acc = offset_tile(f, x + ACT_NSUM * nb + 4 * b, stride, i32(4))  # -16 * sum
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
    fifths = load_i(lines)
    for j in range(4):
        v = load_i(lines + 64 + 64 * j)
        put_weights(out, j, low_nibbles(v) | bit_to_4(fifths, i32(j)), zero)
        put_weights(out, j + 4, high_nibbles(v) | bit_to_4(fifths, i32(j + 4)), zero)


@kernel_part
def _spread_0(w, out, k):
    for b in range(k // 32):
        p, to = w + _BYTES_0 * b, out + UNPACKED_BYTES * b
        _spread_lines(p + 32, to, i32(16))
        store_f(to + SCALE, load_f16(p))


@kernel_part
def _spread_1(w, out, k):
    for b in range(k // 32):
        p, to = w + _BYTES_1 * b, out + UNPACKED_BYTES * b
        _spread_lines(p + 64, to, i32(0))
        store_f(to + SCALE, load_f16(p))
        store_f(to + LEAST, load_f16(p + 32))


@inline_part
def _pack_bits(src, dst, lane):
    qh, fifths = load1_i32(src), i32(0)
    for i in range(4):
        for j in range(8):
            fifths |= ((qh >> i32(4 * j + i)) & i32(1)) << i32(8 * i + j)
    store1_i32(dst + 4 * lane, i32(fifths))
    move_words(src + 4, dst + 64, lane, 4)


@kernel_part
def _pack_0(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    _pack_bits(src + 2, dst + 32, lane)


@kernel_part
def _pack_1(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    store1_u16(dst + 32 + 2 * lane, load1_u16(src + 2))
    _pack_bits(src + 4, dst + 64, lane)


@inline_part
def _value(lines, lane, i):
    """The 5 bits of value i."""
    byte = load1_u8(lines + 64 + 64 * (i % 16 // 4) + 4 * lane + i % 4)
    fifths = load1_u8(lines + 4 * lane + i % 4)
    nibble = byte & i32(15) if i < 16 else byte >> i32(4)
    return nibble | ((fifths >> i32(i // 4)) & i32(1)) << i32(4)


@kernel_part
def _unpack_0(src, lane, dst, scale):
    d = load1_f16(src + 2 * lane)
    for i in range(32):
        store1_f32(dst + 4 * i, d * f32(_value(src + 32, lane, i) - 16) * scale)


@kernel_part
def _unpack_1(src, lane, dst, scale):
    d, m = load1_f16(src + 2 * lane), load1_f16(src + 32 + 2 * lane)
    for i in range(32):
        store1_f32(dst + 4 * i, (d * f32(_value(src + 64, lane, i)) + m) * scale)


_q5_0 = marker(Q5_0, _tile_0, _pack_0, _unpack_0, _spread_0)
_q5_1 = marker(Q5_1, _tile_1, _pack_1, _unpack_1, _spread_1)


def matmul_q5_0(op, step, tid):
    matmul(op, step, tid, _q5_0())


def embed_q5_0(op, step, tid):
    embed(op, step, tid, _q5_0())


def repack_q5_0(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q5_0())


def matmul_q5_1(op, step, tid):
    matmul(op, step, tid, _q5_1())


def embed_q5_1(op, step, tid):
    embed(op, step, tid, _q5_1())


def repack_q5_1(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q5_1())
