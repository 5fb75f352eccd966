"""Q6_K: superblocks of 256 values of 6 bits. Owns its packed form, micro-kernel and values.

    value (d * scale) * (q - 32), an int8 scale for every 16 values
    file ql[128] qh[64] sc[16] d    packed d[16]f16, 16 x sc[16]i8, 2 x 24 lines  (same size)

Each half of a superblock holds four blocks of 32: the low nibbles of two runs of 32 bytes of ql,
then the high nibbles of the same two; bits 2s and 2s + 1 of 32 bytes of qh belong to block s. Packed
lines lie in the order of their first use (ql, qh, ql), for the sake of the hardware's prefetching.
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
    kernel_part,
    load1_f16,
    load1_i8,
    load1_u8,
    load1_u16,
    load_f16,
    load_i,
    load_i8_f,
    nibbles_at,
    offset_tile,
    pair_to_4,
    store1_f32,
    store1_u8,
    store1_u16,
    store_f,
)
from kernels.cpu.weight_format import Format, marker
from kernels.cpu.wide import SCALE, UNPACKED_BYTES, put_weights

_SCALES, _LINES = 32, 32 + 256  # offsets in a packed superblock
_HALF = 24 * 64
_BYTES = _LINES + 2 * _HALF
Q6_K = Format("Q6_K", 256, 210, _BYTES, bits=6, run_len=16, zero=32)


@inline_part
def _add_run(f, scale, low, upper, s, x, nsum, d, stride):
    """f += a run of 16 values (one scale) of block s of a half, given the run's lines and activations."""
    acc = offset_tile(f, nsum, stride, i32(5))  # -32 * sum
    for start in range(0, 4, 2):
        short = begin_short(acc)
        for j in range(start, start + 2):
            v = nibbles_at(load_i(low + 64 * j), i32(4 * (s // 2)))
            v = v | pair_to_4(load_i(upper + 64 * j), i32(2 * s))
            short = dot4_short(short, v, x + 4 * j, stride)
        acc = end_short(acc, short)
    return add_scaled_dots(f, acc, scale, d, stride)


@inline_part
def _add_block(f, d, s, lines, scales, x, b, nb, stride):
    """f += block s of a half of a superblock, which is block b + s of the row."""
    low, upper, b = lines + 1024 * (s % 2), lines + 512, b + s
    xb, nsum, xd = x + 32 * b, x + ACT_NSUM16 * nb + 8 * b, x + ACT_D * nb + 4 * b
    scale = d * load_i8_f(scales + 32 * s)
    f = _add_run(f, scale, low, upper, s, xb, nsum, xd, stride)
    scale = d * load_i8_f(scales + 32 * s + 16)
    return _add_run(f, scale, low + 256, upper + 256, s, xb + 16, nsum + 4, xd, stride)


@kernel_part
def _tile(f, w, x, stride, k):
    nb = k // 32
    for half in range(nb // 4):
        p = w + _BYTES * (half // 2)
        lines, scales = p + _LINES + _HALF * (half % 2), p + _SCALES + 128 * (half % 2)
        d, b = load_f16(p), 4 * half
        fetch_ahead(p + _BYTES // 2 * (half % 2), _BYTES // 2)
        # Written out, so that s is a constant and with it every shift.
        f = _add_block(f, d, 0, lines, scales, x, b, nb, stride)
        f = _add_block(f, d, 1, lines, scales, x, b, nb, stride)
        f = _add_block(f, d, 2, lines, scales, x, b, nb, stride)
        f = _add_block(f, d, 3, lines, scales, x, b, nb, stride)
    return f


@kernel_part
def _spread(w, out, k):
    for b in range(k // 32):
        p, half, s, to = w + _BYTES * (b // 8), b // 4 % 2, b % 4, out + UNPACKED_BYTES * b
        lines, scales = p + _LINES + _HALF * half, p + _SCALES + 128 * half + 32 * s
        for j in range(8):
            v = nibbles_at(load_i(lines + 1024 * (s % 2) + 64 * j), i32(4 * (s // 2)))
            v = v | pair_to_4(load_i(lines + 512 + 64 * j), i32(2 * s))
            put_weights(to, j, v, i32(32))
        store_f(to + SCALE, load_f16(p) * load_i8_f(scales))
        store_f(to + SCALE + 64, load_f16(p) * load_i8_f(scales + 16))


@kernel_part
def _pack(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src + 208))
    for s in range(16):
        store1_u8(dst + _SCALES + 16 * s + lane, load1_u8(src + 192 + s))
    for half in range(2):
        ql, qh, lines = src + 64 * half, src + 128 + 32 * half, dst + _LINES + _HALF * half
        move_words(ql, lines, lane, 8)
        move_words(qh, lines + 512, lane, 8)
        move_words(ql + 32, lines + 1024, lane, 8)


@kernel_part
def _unpack(src, lane, dst, scale):
    d = load1_f16(src + 2 * lane)
    for i in range(256):
        half, s, word = i // 128, i % 128 // 32, i % 32 // 4
        word_at = src + _LINES + _HALF * half + 64 * word + 4 * lane + i % 4
        low, upper = load1_u8(word_at + 1024 * (s % 2)), load1_u8(word_at + 512)
        nibble = low >> i32(4) if s > 1 else low & i32(15)
        q = (nibble | ((upper >> i32(2 * s)) & i32(3)) << i32(4)) - i32(32)
        block_scale = d * f32(load1_i8(src + _SCALES + 16 * (i // 16) + lane))
        store1_f32(dst + 4 * i, block_scale * f32(q) * scale)


_q6_k = marker(Q6_K, _tile, _pack, _unpack, _spread)


def matmul_q6_k(op, step, tid):
    matmul(op, step, tid, _q6_k())


def embed_q6_k(op, step, tid):
    embed(op, step, tid, _q6_k())


def repack_q6_k(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q6_k())
