"""What happens to queries, keys and values between their matmul and attention.

Owns bias, per-head norm, rotary positions, and handing keys and values to their page; knows no
scores. Angles come by the addition theorem from two small tables, one per page and one per offset
in a page, so that memory does not grow with head_dim x context and no step evaluates a sine.
"""

from kernels.cpu.kv_pages import append, head_page
from kernels.cpu.layout import (
    BIAS,
    EPS,
    HEAD_DIM,
    HEADS,
    IN,
    IN_STRIDE,
    K_GAIN,
    KV_HEADS,
    NUM_PAIRS,
    OFFSET_ANGLES,
    PAGE,
    PAGE_ANGLES,
    Q_GAIN,
    ROWS,
    S_POSITIONS,
    S_THREADS,
    SCALE,
)
from kernels.cpu.norm import norm_row
from kernels.cpu.rows import scratch
from kernels.cpu.simd import (
    as_f64,
    f32,
    fma,
    i64,
    inline_part,
    kernel_part,
    load1_i32,
    load_f,
    splat,
    store_f,
    zeros,
)


@inline_part
def _padded(pairs):
    """Pairs in an angle row: whole vectors. A row is that many cosines, then that many sines."""
    return (pairs + 15) // 16 * 16


@kernel_part
def angles_at(op, position, dst):
    """cos and sin of position * inv_freq: a + b = the page's first position + the offset in it."""
    n = _padded(op[NUM_PAIRS])
    a = op[PAGE_ANGLES] + (position // PAGE) * 8 * n
    b = op[OFFSET_ANGLES] + (position % PAGE) * 8 * n
    for i in range(0, 4 * n, 64):
        cos_a, sin_a = load_f(a + i), load_f(a + 4 * n + i)
        cos_b, sin_b = load_f(b + i), load_f(b + 4 * n + i)
        store_f(dst + i, fma(cos_a, cos_b, zeros() - sin_a * sin_b))
        store_f(dst + 4 * n + i, fma(sin_a, cos_b, cos_a * sin_b))


@inline_part
def _rotate_half(src, dst, pairs, angles, scale):
    """Whole vectors of pairs: dst may be src."""
    second, sines = 4 * pairs, angles + 4 * pairs
    for i in range(0, second, 64):
        x, y = load_f(src + i), load_f(src + second + i)
        c, s = load_f(angles + i), load_f(sines + i)
        store_f(dst + i, (x * c - y * s) * scale)
        store_f(dst + second + i, (x * s + y * c) * scale)


@kernel_part
def _rotate_ragged(src, dst, dim, pairs, angles, scale, work):
    """Pairs that fill no whole vector: a store to `work` reaches beyond its half, and the next one
    overwrites that. All have 16 floats to spare behind them."""
    second, sines = 4 * pairs, angles + 4 * _padded(pairs)
    for i in range(0, second, 64):
        x, y = load_f(src + i), load_f(src + second + i)
        store_f(work + i, (x * load_f(angles + i) - y * load_f(sines + i)) * scale)
    for i in range(0, second, 64):
        x, y = load_f(src + i), load_f(src + second + i)
        store_f(work + second + i, (x * load_f(sines + i) + y * load_f(angles + i)) * scale)
    for i in range(2 * second, 4 * dim, 64):
        store_f(work + i, load_f(src + i) * scale)
    for i in range(0, 4 * dim, 64):
        store_f(dst + i, load_f(work + i))


@inline_part
def rotate(src, dst, dim, pairs, angles, scale, work):
    """Half-split rotary embedding of one head, times scale: pairs (i, i + pairs); dims from 2 * pairs
    on are only scaled.

    Shapes: src, dst (dim,) f32, dst may be src; work (dim + 16,) f32 of scratch.
    """
    if pairs % 16:
        _rotate_ragged(src, dst, dim, pairs, angles, scale, work)
    else:
        _rotate_half(src, dst, pairs, angles, scale)
        for i in range(8 * pairs, 4 * dim, 64):
            store_f(dst + i, load_f(src + i) * scale)


@inline_part
def _add_bias(op, src, column, dst, dim):
    """One head plus its part of the bias; column: its first feature in the row."""
    for i in range(0, 4 * dim, 64):
        store_f(dst + i, load_f(src + i) + load_f(op[BIAS] + 4 * column + i))


@kernel_part
def _prepare_head(op, row, column, gain, angles, scale, dst, work):
    """Bias, norm, rotation and scale of one head of a row."""
    dim, src = op[HEAD_DIM], row + 4 * column
    if op[BIAS]:
        _add_bias(op, src, column, work, dim)
        src = work
    if gain:
        norm_row(src, gain, work, dim, as_f64(op[EPS]))
        src = work
    rotate(src, dst, dim, op[NUM_PAIRS], angles, scale, work + 4 * (dim + 16))


def prepare_attention(op, step, tid):
    """Queries: bias, norm, rotate, scale, in place. Keys and values: likewise, into their page."""
    rows, threads = step[op[ROWS]], step[S_THREADS]
    heads, kv_heads, dim = op[HEADS], op[KV_HEADS], op[HEAD_DIM]
    group, items = heads // kv_heads, rows * kv_heads
    angles = scratch(step, tid)
    key = angles + 8 * _padded(op[NUM_PAIRS])
    work = key + 4 * (dim + 16)
    scale, one = splat(f32(as_f64(op[SCALE]))), splat(f32(1.0))
    turned_row = i64(-1)  # whose angles are in scratch
    for item in range(items * tid // threads, items * (tid + 1) // threads):
        r, h = item // kv_heads, item % kv_heads
        row = op[IN] + r * op[IN_STRIDE]
        position = i64(load1_i32(step[S_POSITIONS] + 4 * r))
        if r != turned_row:
            angles_at(op, position, angles)
            turned_row = r
        for q in range(h * group, (h + 1) * group):
            dst = row + 4 * q * dim
            _prepare_head(op, row, q * dim, op[Q_GAIN], angles, scale, dst, work)
        _prepare_head(op, row, (heads + h) * dim, op[K_GAIN], angles, one, key, work)
        column = (heads + kv_heads + h) * dim
        value = row + 4 * column
        if op[BIAS]:
            _add_bias(op, value, column, work, dim)
            value = work
        append(op, head_page(op, step, r, position // PAGE, h), position % PAGE, key, value)
