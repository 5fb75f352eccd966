"""IQ4_NL and IQ4_XS: 4 bits that index a table of uneven steps. Owns their packed form and kernels.

    IQ4_NL  value d * steps[q]
            file d qs[16]                packed d[16]f16, 4 lines                             (same size)
    IQ4_XS  value (d * (scale - 32)) * steps[q]
            file d sh[2] sl[4] qs[128]   packed d[16]f16, 8 x (scale - 32)[16]i8, 8 x 4 lines  (x 1.02)

Byte i of a block's qs holds value i in its low and value 16 + i in its high nibble. Scales of IQ4_XS
have 6 bits for every 32 values: nibbles in sl, upper pairs in sh. Source of the table: ggml-common.h.
"""

from __future__ import annotations

import numpy as np

from kernels.cpu.embed import embed
from kernels.cpu.formats.parts import fetch_ahead, move_words
from kernels.cpu.layout import ACT_D, ACT_NSUM
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled_dots,
    define_lookup,
    dot4_eight,
    f32,
    high_nibbles,
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
    low_nibbles,
    start_eight,
    store1_f32,
    store1_u8,
    store1_u16,
    store_f,
)
from kernels.cpu.weight_format import Format, marker
from kernels.cpu.wide import SCALE, UNPACKED_BYTES, put_weights

_STEPS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_STEP_VALUES = np.array(_STEPS, np.float32)
_steps_plus_128 = define_lookup([step + 128 for step in _STEPS])

_BYTES_NL = 32 + 4 * 64
_SCALES, _LINES = 32, 32 + 128  # offsets in a packed superblock of IQ4_XS
_BYTES_XS = _LINES + 32 * 64
IQ4_NL = Format("IQ4_NL", 32, 18, _BYTES_NL, zero=128)
IQ4_XS = Format("IQ4_XS", 256, 136, _BYTES_XS, zero=128)


@inline_part
def _add_block(f, scale, lines, x, nsum, xd, stride):
    """f += a block of 32, given its lines and activations."""
    acc = start_eight(f, nsum, stride)
    for j in range(4):
        v = load_i(lines + 64 * j)
        acc = dot4_eight(acc, _steps_plus_128(low_nibbles(v)), x + 4 * j, stride)
        acc = dot4_eight(acc, _steps_plus_128(high_nibbles(v)), x + 16 + 4 * j, stride)
    return add_scaled_dots(f, acc, scale, xd, stride)


@kernel_part
def _tile_nl(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p, xb, nsum, xd = w + _BYTES_NL * b, x + 32 * b, x + ACT_NSUM * nb, x + ACT_D * nb
        fetch_ahead(p, _BYTES_NL)
        f = _add_block(f, load_f16(p), p + 32, xb, nsum + 4 * b, xd + 4 * b, stride)
    return f


@kernel_part
def _tile_xs(f, w, x, stride, k):
    nb = k // 32
    for b in range(nb):
        p, xb, nsum, xd = w + _BYTES_XS * (b // 8), x + 32 * b, x + ACT_NSUM * nb, x + ACT_D * nb
        fetch_ahead(p + _BYTES_XS // 8 * (b % 8), _BYTES_XS // 8)
        scale = load_f16(p) * load_i8_f(p + _SCALES + 16 * (b % 8))
        lines = p + _LINES + 256 * (b % 8)
        f = _add_block(f, scale, lines, xb, nsum + 4 * b, xd + 4 * b, stride)
    return f


@inline_part
def _spread_lines(lines, out):
    for j in range(4):
        v = load_i(lines + 64 * j)
        put_weights(out, j, _steps_plus_128(low_nibbles(v)), i32(128))
        put_weights(out, j + 4, _steps_plus_128(high_nibbles(v)), i32(128))


@kernel_part
def _spread_nl(w, out, k):
    for b in range(k // 32):
        p, to = w + _BYTES_NL * b, out + UNPACKED_BYTES * b
        _spread_lines(p + 32, to)
        store_f(to + SCALE, load_f16(p))


@kernel_part
def _spread_xs(w, out, k):
    for b in range(k // 32):
        p, s, to = w + _BYTES_XS * (b // 8), b % 8, out + UNPACKED_BYTES * b
        _spread_lines(p + _LINES + 256 * s, to)
        store_f(to + SCALE, load_f16(p) * load_i8_f(p + _SCALES + 16 * s))


@kernel_part
def _pack_nl(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    move_words(src + 2, dst + 32, lane, 4)


@kernel_part
def _pack_xs(src, dst, lane):
    store1_u16(dst + 2 * lane, load1_u16(src))
    upper = load1_u16(src + 2)
    for s in range(8):
        low = load1_u8(src + 4 + s // 2) >> i32(4 * (s % 2))
        scale = (low & i32(15)) | ((upper >> i32(2 * s)) & i32(3)) << i32(4)
        store1_u8(dst + _SCALES + 16 * s + lane, scale - i32(32))
    move_words(src + 8, dst + _LINES, lane, 32)


@inline_part
def _unpack_values(lines, lane, d, dst, scale):
    for i in range(16):
        byte = load1_u8(lines + 64 * (i // 4) + 4 * lane + i % 4)
        store1_f32(dst + 4 * i, d * _STEP_VALUES[byte & i32(15)] * scale)
        store1_f32(dst + 4 * (i + 16), d * _STEP_VALUES[byte >> i32(4)] * scale)


@kernel_part
def _unpack_nl(src, lane, dst, scale):
    _unpack_values(src + 32, lane, load1_f16(src + 2 * lane), dst, scale)


@kernel_part
def _unpack_xs(src, lane, dst, scale):
    for s in range(8):
        d = load1_f16(src + 2 * lane) * f32(load1_i8(src + _SCALES + 16 * s + lane))
        _unpack_values(src + _LINES + 256 * s, lane, d, dst + 128 * s, scale)


_iq4_nl = marker(IQ4_NL, _tile_nl, _pack_nl, _unpack_nl, _spread_nl)
_iq4_xs = marker(IQ4_XS, _tile_xs, _pack_xs, _unpack_xs, _spread_xs)


def matmul_iq4_nl(op, step, tid):
    matmul(op, step, tid, _iq4_nl())


def embed_iq4_nl(op, step, tid):
    embed(op, step, tid, _iq4_nl())


def repack_iq4_nl(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _iq4_nl())


def matmul_iq4_xs(op, step, tid):
    matmul(op, step, tid, _iq4_xs())


def embed_iq4_xs(op, step, tid):
    embed(op, step, tid, _iq4_xs())


def repack_iq4_xs(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _iq4_xs())
