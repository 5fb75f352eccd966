"""Q6_K: superblocks of 256 values of 6 bits. Owns its packed form, micro-kernel and values.

    value (d * scale) * (q - 32), an int8 scale for every 16 values
    file ql[128] qh[64] sc[16] d    packed d[16]f16, 16 x sc[16]i8, 32 + 16 lines  (same size)

Each half of a superblock holds four blocks of 32: the low nibbles of two runs of 32 bytes of ql,
then the high nibbles of the same two; bits 2s and 2s + 1 of 32 bytes of qh belong to block s.
"""

from __future__ import annotations

from kernels.cpu.embed import embed
from kernels.cpu.formats.parts import move_words
from kernels.cpu.layout import ACT_D, ACT_NSUM16
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled_dots,
    dot4,
    f32,
    high_nibbles,
    i32,
    kernel_part,
    load1_f16,
    load1_i8,
    load1_u8,
    load1_u16,
    load_f16,
    load_i,
    load_i8_f,
    low_nibbles,
    offset_tile,
    pair_to_4,
    store1_f32,
    store1_u8,
    store1_u16,
)
from kernels.cpu.weight_format import Format, marker

_SCALES, _LOW, _UPPER = 32, 32 + 256, 32 + 256 + 2048  # offsets in a packed superblock
Q6_K = Format("Q6_K", 256, 210, _UPPER + 16 * 64)


@kernel_part
def _tile(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p, half, s = w + 3360 * (b // 8), b % 8 // 4, b % 4
        low, upper = p + _LOW + 1024 * half + 512 * (s % 2), p + _UPPER + 512 * half
        scales = p + _SCALES + 32 * (b % 8)
        for part in range(2):  # 16 values, one scale
            acc = offset_tile(
                f, x + ACT_NSUM16 * nb + 8 * b + 4 * part, stride, i32(5)
            )  # -32 * sum
            for j in range(4 * part, 4 * part + 4):
                v, u = load_i(low + 64 * j), pair_to_4(load_i(upper + 64 * j), i32(2 * s))
                nibbles = low_nibbles(v) if s < 2 else high_nibbles(v)
                acc = dot4(acc, nibbles | u, x + 32 * b + 4 * j, stride)
            scale = load_f16(p) * load_i8_f(scales + 16 * part)
            f = add_scaled_dots(f, acc, scale, x + ACT_D * nb + 4 * b, stride)
    return f


@kernel_part
def _pack(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src + 208))
    for s in range(16):
        store1_u8(dst + _SCALES + 16 * s + lane, load1_u8(src + 192 + s))
    move_words(src, dst + _LOW, lane, 48)  # ql then qh


@kernel_part
def _unpack(src, lane, dst, scale):
    d = load1_f16(src + 2 * lane)
    for i in range(256):
        half, s, word = i // 128, i % 128 // 32, i % 32 // 4
        low = load1_u8(src + _LOW + 64 * (16 * half + 8 * (s % 2) + word) + 4 * lane + i % 4)
        upper = load1_u8(src + _UPPER + 64 * (8 * half + word) + 4 * lane + i % 4)
        nibble = low >> i32(4) if s > 1 else low & i32(15)
        q = (nibble | ((upper >> i32(2 * s)) & i32(3)) << i32(4)) - i32(32)
        block_scale = d * f32(load1_i8(src + _SCALES + 16 * (i // 16) + lane))
        store1_f32(dst + 4 * i, block_scale * f32(q) * scale)


_q6_k = marker(Q6_K, _tile, _pack, _unpack)


def matmul_q6_k(op, step, tid):
    matmul(op, step, tid, _q6_k())


def embed_q6_k(op, step, tid):
    embed(op, step, tid, _q6_k())


def repack_q6_k(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _q6_k())
