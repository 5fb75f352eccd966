"""F32, F16 and BF16: not quantised, so float activations. Owns their packed form and micro-kernels.

    packed: 16 columns a block; for every column the 16 rows side by side  (same size)

Even and odd columns are summed apart (two chains of additions hide their latency), then added.
"""

from __future__ import annotations

from kernels.cpu.embed import embed
from kernels.cpu.formats.parts import fetch_ahead
from kernels.cpu.matmul import matmul
from kernels.cpu.repack import repack
from kernels.cpu.simd import (
    add_scaled,
    add_tiles,
    bits_as_f32,
    i32,
    inline_part,
    kernel_part,
    load1_f16,
    load1_f32,
    load1_i32,
    load1_u16,
    load_bf16,
    load_f,
    load_f16,
    store1_f32,
    store1_i32,
    store1_u16,
)
from kernels.cpu.weight_format import Format, marker

F32 = Format("F32", 16, 64, 16 * 64, activations="f32")
F16 = Format("F16", 16, 32, 16 * 32, activations="f32")
BF16 = Format("BF16", 16, 32, 16 * 32, activations="f32")


@kernel_part
def _tile_f32(f, w, x, stride, k):
    even = odd = f
    for i in range(0, k, 2):
        fetch_ahead(w + 64 * i, 128)
        even = add_scaled(even, load_f(w + 64 * i), x + 4 * i, stride)
        odd = add_scaled(odd, load_f(w + 64 * i + 64), x + 4 * i + 4, stride)
    return add_tiles(even, odd)


@kernel_part
def _tile_f16(f, w, x, stride, k):
    even = odd = f
    for i in range(0, k, 2):
        fetch_ahead(w + 32 * i, 64)
        even = add_scaled(even, load_f16(w + 32 * i), x + 4 * i, stride)
        odd = add_scaled(odd, load_f16(w + 32 * i + 32), x + 4 * i + 4, stride)
    return add_tiles(even, odd)


@kernel_part
def _tile_bf16(f, w, x, stride, k):
    even = odd = f
    for i in range(0, k, 2):
        fetch_ahead(w + 32 * i, 64)
        even = add_scaled(even, load_bf16(w + 32 * i), x + 4 * i, stride)
        odd = add_scaled(odd, load_bf16(w + 32 * i + 32), x + 4 * i + 4, stride)
    return add_tiles(even, odd)


@kernel_part
def _pack_words(src, dst, lane):
    for i in range(16):
        store1_i32(dst + 64 * i + 4 * lane, load1_i32(src + 4 * i))


@kernel_part
def _pack_halves(src, dst, lane):
    for i in range(16):
        store1_u16(dst + 32 * i + 2 * lane, load1_u16(src + 2 * i))


@kernel_part
def _unpack_f32(src, lane, dst, scale):
    for i in range(16):
        store1_f32(dst + 4 * i, load1_f32(src + 64 * i + 4 * lane) * scale)


@kernel_part
def _unpack_f16(src, lane, dst, scale):
    for i in range(16):
        store1_f32(dst + 4 * i, load1_f16(src + 32 * i + 2 * lane) * scale)


@inline_part
def _load1_bf16(src):
    return bits_as_f32(load1_u16(src) << i32(16))


@kernel_part
def _unpack_bf16(src, lane, dst, scale):
    for i in range(16):
        store1_f32(dst + 4 * i, _load1_bf16(src + 32 * i + 2 * lane) * scale)


_f32 = marker(F32, _tile_f32, _pack_words, _unpack_f32)
_f16 = marker(F16, _tile_f16, _pack_halves, _unpack_f16)
_bf16 = marker(BF16, _tile_bf16, _pack_halves, _unpack_bf16)


def matmul_f32(op, step, tid):
    matmul(op, step, tid, _f32())


def embed_f32(op, step, tid):
    embed(op, step, tid, _f32())


def repack_f32(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _f32())


def matmul_f16(op, step, tid):
    matmul(op, step, tid, _f16())


def embed_f16(op, step, tid):
    embed(op, step, tid, _f16())


def repack_f16(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _f16())


def matmul_bf16(op, step, tid):
    matmul(op, step, tid, _bf16())


def embed_bf16(op, step, tid):
    embed(op, step, tid, _bf16())


def repack_bf16(rows, dst, blocks, groups):
    repack(rows, dst, blocks, groups, _bf16())
