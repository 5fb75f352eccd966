"""y = W x for M rows of activations, for any weight format.

Owns how a matmul is cut: over threads by groups of 16 features (fixed shares and claims), over rows
by what the second-level cache holds, then by tiles: wide ones (kernels.cpu.many_rows) where there are many
rows, else of up to 8. Knows no format: `weight_format.tile` is a format's micro-kernel. Every format
adds a quant block's products as exact int32 (float formats: even and odd columns apart), scales it into
float32, blocks in order; that order is the same for every M and every share of a thread, and so is the
result, bit for bit.
"""

from __future__ import annotations

from kernels.cpu.layout import (
    ADD,
    CLAIMED,
    GATED_GELU,
    GROUP_BYTES,
    GROUPS,
    IN_STRIDE,
    MODE,
    NARROW_ROWS,
    OUT,
    OUT_STRIDE,
    ROWS,
    S_THREADS,
    STORE,
    K,
    W,
)
from kernels.cpu.many_rows import (
    begin_wide,
    end_wide,
    is_wide,
    wide_scratch_bytes,
    wide_times_rows,
)
from kernels.cpu.rows import input_rows, scratch
from kernels.cpu.simd import (
    MAX_TILE,
    atomic_add,
    driver,
    f32,
    float_tile,
    i32,
    i64,
    inline_part,
    kernel_part,
    load_f,
    splat,
    store_f,
    vexp,
    zeros,
)
from kernels.cpu.weight_format import tile
from kernels.cpu.wide import emit

# Activations that stay in the second-level cache while all groups pass by.
ROW_BLOCK_BYTES = 640 << 10
_WHOLE_TILES = 48  # rows that any tile divides
CLAIM_BYTES = 16 << 10  # of weights, in a narrow step: a microsecond or two
_GATE_BYTES = 128  # per row: gate and up of one pair of groups


def matmul_scratch_bytes(max_rows: int, max_k: int) -> int:
    """Of each thread."""
    return int(wide_scratch_bytes(max_rows, max_k)) + _GATE_BYTES * max_rows


@kernel_part
def _group_times_rows(fmt, w, next_w, x, x_stride, k, first, rows, wide, spare, y, y_stride, add):
    """One group of 16 features for all rows, in the widest tiles and then what is left.

    wide: whether the step has enough rows for wide tiles, which fetch at next_w.
    """
    r = 0
    if wide:
        r = wide_times_rows(fmt, w, next_w, spare, x, x_stride, k, first, rows, y, y_stride, add)
    while rows - r >= MAX_TILE:
        f = tile(fmt, float_tile(MAX_TILE), w, x + r * x_stride, x_stride, k)
        emit(f, y + r * y_stride, y_stride, add)
        r += MAX_TILE
    if MAX_TILE > 4 and rows - r >= 4:
        f = tile(fmt, float_tile(4), w, x + r * x_stride, x_stride, k)
        emit(f, y + r * y_stride, y_stride, add)
        r += 4
    if rows - r >= 2:
        f = tile(fmt, float_tile(2), w, x + r * x_stride, x_stride, k)
        emit(f, y + r * y_stride, y_stride, add)
        r += 2
    if rows - r >= 1:
        f = tile(fmt, float_tile(1), w, x + r * x_stride, x_stride, k)
        emit(f, y + r * y_stride, y_stride, add)


@inline_part
def gated(gate, up, mode):
    """silu(g) * u, or gelu(g) * u in its tanh form: (1 + tanh z) / 2 = 1 / (1 + exp(-2z))."""
    z = gate
    if mode == GATED_GELU:
        cubic = splat(f32(1.5957691216057308 * 0.044715)) * gate * gate
        z = gate * (splat(f32(1.5957691216057308)) + cubic)  # 2 sqrt(2 / pi) (g + 0.044715 g^3)
    return gate / (splat(f32(1.0)) + vexp(zeros() - z)) * up


@driver
def matmul(op, step, tid, fmt):
    """Columns: W K GROUPS GROUP_BYTES, IN IN_STRIDE IN_SHARED, OUT OUT_STRIDE, MODE.

    OUT points at the first output column of this weight; whole groups are written. When gated, gate
    and up groups alternate, and GROUPS counts both. Scratch: matmul_scratch_bytes.

    Threads have fixed shares of three quarters and claim the rest from the counter at CLAIMED (0: all is
    shared out): one that has lost its core for a while, or whose reads are slower, then delays a few
    groups and not half the matmul (Zen 3, 1B in Q4_K, two threads: 7 ms of waiting in a step of 43
    became 0.4). In a wide step a group is work enough to claim every one.
    """
    rows, threads, k, mode = step[op[ROWS]], step[S_THREADS], op[K], op[MODE]
    w_bytes, x_stride, y_stride = op[GROUP_BYTES], op[IN_STRIDE], op[OUT_STRIDE]
    all_x, spare = input_rows(op, step, tid), scratch(step, tid)
    gate, wide = spare + wide_scratch_bytes(rows, k), is_wide(fmt, k, rows)
    if wide:
        begin_wide(fmt, all_x, x_stride, k, rows, spare)
    row_block = max(_WHOLE_TILES, ROW_BLOCK_BYTES // x_stride // _WHOLE_TILES * _WHOLE_TILES)
    plain = mode in (STORE, ADD)
    units = op[GROUPS] if plain else op[GROUPS] // 2
    total = units * ((rows + row_block - 1) // row_block)
    shared_out, at_once = total, 1
    if op[CLAIMED] != 0 and threads > 1:
        narrow_at_once = 1 + CLAIM_BYTES // (w_bytes if plain else 2 * w_bytes)
        narrow = rows <= NARROW_ROWS
        shared_out, at_once = (total - total // 4, narrow_at_once) if narrow else (0, 1)
    unit, end = shared_out * tid // threads, shared_out * (tid + 1) // threads
    while True:
        if unit == end:
            if shared_out == total:
                break
            unit = shared_out + at_once * i64(atomic_add(op[CLAIMED], i32(1)))
            if unit >= total:
                break
            end = min(unit + at_once, total)
        first, g = unit // units * row_block, unit % units
        n = min(row_block, rows - first)
        x, y = all_x + first * x_stride, op[OUT] + first * y_stride + 64 * g
        if plain:
            w = op[W] + g * w_bytes
            add = mode == ADD
            next_w = w + threads * w_bytes
            _group_times_rows(
                fmt, w, next_w, x, x_stride, k, first, n, wide, spare, y, y_stride, add
            )
        else:
            w = op[W] + 2 * g * w_bytes
            for half in range(2):
                w_half, y_half = w + half * w_bytes, gate + 64 * half
                _group_times_rows(
                    fmt,
                    w_half,
                    w_half + (1 + half * 2 * (threads - 1)) * w_bytes,
                    x,
                    x_stride,
                    k,
                    first,
                    n,
                    wide,
                    spare,
                    y_half,
                    _GATE_BYTES,
                    False,
                )
            for r in range(n):
                p = gate + _GATE_BYTES * r
                store_f(y + r * y_stride, gated(load_f(p), load_f(p + 64), mode))
        unit += 1
    if wide:
        end_wide()
