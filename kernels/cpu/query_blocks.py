"""Blocks of queries against one page of keys or values that has been widened to float32.

Owns the micro-kernels of attention and the softmax of a run; knows neither pages in memory nor tasks.
A block is as many queries as the registers take, so that each key and value vector is loaded once for
all of them. Every score and every output adds up in one order, whatever the block: nothing a query
gets depends on its neighbours.
"""

from kernels.cpu.layout import RUN
from kernels.cpu.run_results import LOWEST, set_softmax
from kernels.cpu.simd import (
    MAX_TILE,
    add_pairs,
    add_scaled,
    add_scaled_pair,
    add_tile,
    f32,
    float_tile,
    hmax,
    hsum,
    i64,
    inline_part,
    kernel_part,
    load_f,
    load_f16,
    mask_before,
    mask_beyond,
    prefetch,
    splat,
    store_f,
    store_pairs,
    store_tile,
    vexp2,
    vmax,
    zeros,
)
from kernels.cpu.simd.dots import ISA

# Queries of a large and of a small block. With 32 registers two vectors of positions (or features) go
# through a block at once, else one: accumulators, the vectors and one broadcast query fill them.
PAIRS = MAX_TILE == 8
LARGE, SMALL = (12, 4) if PAIRS else {"avxvnni": (6, 3), "avx2": (6, 3)}.get(ISA, (2, 1))
TWICE_LARGE = 2 * LARGE
MAX_QUERIES = 48  # that go through a run together; a multiple of every LARGE

# Constant distances between the rows of queries, results and scores become displacements in the
# instructions. A line more than a power of two spreads the rows over the sets of the caches.
MAX_HEAD_DIM = 512
ROW_BYTES = 4 * MAX_HEAD_DIM + 64
SCORES_BYTES = 4 * RUN + 64


@inline_part
def block_len(num_left):
    """Queries of the next block, when so many are left. Of a large one the last may be missing."""
    if num_left >= LARGE or num_left > 2 * SMALL:
        return i64(LARGE)
    return min(num_left, i64(SMALL))


@inline_part
def _load(halves, at, i):
    """The i-th 16 values from `at` on, float16 or float32."""
    return load_f16(at + 32 * i) if halves else load_f(at + 64 * i)


@inline_part
def _scores_32(halves, f, keys, queries, dim, out, ahead, stride):
    """Scores of a block (f: twice as many zeroed vectors) for the 32 positions of a page."""
    for d in range(dim):
        prefetch(ahead + stride * d)
        low, high = _load(halves, keys, 2 * d), _load(halves, keys, 2 * d + 1)
        f = add_scaled_pair(f, low, high, queries + 4 * d, ROW_BYTES)
    store_pairs(f, out, SCORES_BYTES)


@inline_part
def _scores_16(halves, f, keys, queries, dim, out, ahead, stride):
    for d in range(dim):
        prefetch(ahead + stride * d)
        f = add_scaled(f, _load(halves, keys, 2 * d), queries + 4 * d, ROW_BYTES)
    store_tile(f, out, SCORES_BYTES)


@inline_part
def _scores(halves, zeroed, twice, keys, queries, dim, out, ahead, num_bytes):
    if PAIRS:
        _scores_32(halves, twice, keys, queries, dim, out, ahead, num_bytes // dim)
    else:
        share, second = num_bytes // 2, keys + (32 if halves else 64)
        _scores_16(halves, zeroed, keys, queries, dim, out, ahead, share // dim)
        _scores_16(halves, zeroed, second, queries, dim, out + 64, ahead + share, share // dim)


@kernel_part
def _scores_of_halves(zeroed, twice, keys, queries, dim, out, ahead, num_bytes):
    _scores(True, zeroed, twice, keys, queries, dim, out, ahead, num_bytes)


@kernel_part
def _scores_of_floats(zeroed, twice, keys, queries, dim, out, ahead, num_bytes):
    _scores(False, zeroed, twice, keys, queries, dim, out, ahead, num_bytes)


@inline_part
def _either_scores(halves, zeroed, twice, keys, queries, dim, out, ahead, num_bytes):
    if halves:
        _scores_of_halves(zeroed, twice, keys, queries, dim, out, ahead, num_bytes)
    else:
        _scores_of_floats(zeroed, twice, keys, queries, dim, out, ahead, num_bytes)


@kernel_part
def block_scores(halves, size, keys, queries, dim, out, ahead, num_bytes):
    """Shapes: keys (dim, PAGE), float16 if halves, else f32; queries (size, dim) f32, ROW_BYTES apart;
    out SCORES_BYTES apart.

    Meanwhile fetches the num_bytes that lie ahead.
    """
    args = (keys, queries, dim, out, ahead, num_bytes)
    if size == LARGE:
        _either_scores(halves, float_tile(LARGE), float_tile(TWICE_LARGE), *args)
    elif SMALL > 3 and size == 4:
        _either_scores(halves, float_tile(4), float_tile(8), *args)
    elif SMALL > 2 and size == 3:
        _either_scores(halves, float_tile(3), float_tile(6), *args)
    elif size == 2:
        _either_scores(halves, float_tile(2), float_tile(4), *args)
    else:
        _either_scores(halves, float_tile(1), float_tile(2), *args)


@inline_part
def _outputs_32(halves, f, values, row_bytes, weights, count, out, ahead, stride):
    """32 features of a block's outputs += weights of `count` positions times their values."""
    for i in range(count):
        prefetch(ahead + stride * i)
        at = values + row_bytes * i
        f = add_scaled_pair(
            f, _load(halves, at, 0), _load(halves, at, 1), weights + 4 * i, SCORES_BYTES
        )
    add_pairs(f, out, ROW_BYTES)


@inline_part
def _outputs_16(halves, f, values, row_bytes, weights, count, out, ahead, stride):
    for i in range(count):
        prefetch(ahead + stride * i)
        f = add_scaled(f, _load(halves, values + row_bytes * i, 0), weights + 4 * i, SCORES_BYTES)
    add_tile(f, out, ROW_BYTES)


@inline_part
def _outputs(halves, zeroed, twice, values, dim, weights, count, out, ahead, num_bytes):
    """A pass over the positions for 32 (or 16) features fetches its share of what lies ahead."""
    size, done, share = 2 if halves else 4, 0, num_bytes // (dim // 16)
    if PAIRS:
        done = dim // 32 * 32
        for d in range(0, done, 32):
            at, stride = ahead + d // 16 * share, 2 * share // count
            _outputs_32(
                halves,
                twice,
                values + size * d,
                size * dim,
                weights,
                count,
                out + 4 * d,
                at,
                stride,
            )
    for d in range(done, dim, 16):
        at, stride = ahead + d // 16 * share, share // count
        _outputs_16(
            halves, zeroed, values + size * d, size * dim, weights, count, out + 4 * d, at, stride
        )


@kernel_part
def _outputs_of_halves(zeroed, twice, values, dim, weights, count, out, ahead, num_bytes):
    _outputs(True, zeroed, twice, values, dim, weights, count, out, ahead, num_bytes)


@kernel_part
def _outputs_of_floats(zeroed, twice, values, dim, weights, count, out, ahead, num_bytes):
    _outputs(False, zeroed, twice, values, dim, weights, count, out, ahead, num_bytes)


@inline_part
def _either_outputs(halves, zeroed, twice, values, dim, weights, count, out, ahead, num_bytes):
    if halves:
        _outputs_of_halves(zeroed, twice, values, dim, weights, count, out, ahead, num_bytes)
    else:
        _outputs_of_floats(zeroed, twice, values, dim, weights, count, out, ahead, num_bytes)


@kernel_part
def block_outputs(halves, size, values, dim, weights, count, out, ahead, num_bytes):
    """Shapes: values (count, dim), float16 if halves, else f32; weights (size, count) f32, SCORES_BYTES
    apart; out ROW_BYTES apart.

    A page adds its own sum, so leaving out pages that a block does not see changes no bit.
    Meanwhile fetches the num_bytes that lie ahead.
    """
    args = (values, dim, weights, count, out, ahead, num_bytes)
    if size == LARGE:
        _either_outputs(halves, float_tile(LARGE), float_tile(TWICE_LARGE), *args)
    elif SMALL > 3 and size == 4:
        _either_outputs(halves, float_tile(4), float_tile(8), *args)
    elif SMALL > 2 and size == 3:
        _either_outputs(halves, float_tile(3), float_tile(6), *args)
    elif size == 2:
        _either_outputs(halves, float_tile(2), float_tile(4), *args)
    else:
        _either_outputs(halves, float_tile(1), float_tile(2), *args)


@inline_part
def _visible(v, i, first, last, fill):
    return mask_before(mask_beyond(v, 16 * i, last, fill), 16 * i, first, fill)


@inline_part
def _weigh(scores, i, top):
    return vexp2(load_f(scores + 64 * i) - top)


@kernel_part
def softmax_run(scores, begin, end, first, last, result, dim):
    """Scores of one query at vectors [begin, end) of a run -> weights, in place; maximum and sum -> result.

    first, last: the positions it may see, counted from the start of the run. Those it must not see
    get weight zero.
    """
    low = max(first // 16, begin)
    high = min(last // 16, end - 1) if last >= 0 else i64(-1)
    if high < low:
        for i in range(begin, end):
            store_f(scores + 64 * i, zeros())
        set_softmax(result, dim, f32(LOWEST), f32(0.0))
        return
    none = f32(LOWEST)
    peak = vmax(
        _visible(load_f(scores + 64 * low), low, first, last, none),
        _visible(load_f(scores + 64 * high), high, first, last, none),
    )
    for i in range(low + 1, high):
        peak = vmax(peak, load_f(scores + 64 * i))
    top = splat(hmax(peak))
    total = _visible(_weigh(scores, low, top), low, first, last, f32(0.0))
    store_f(scores + 64 * low, total)
    for i in range(low + 1, high):
        w = _weigh(scores, i, top)
        store_f(scores + 64 * i, w)
        total = total + w
    if high > low:
        w = _visible(_weigh(scores, high, top), high, first, last, f32(0.0))
        store_f(scores + 64 * high, w)
        total = total + w
    for i in range(begin, low):
        store_f(scores + 64 * i, zeros())
    for i in range(high + 1, end):
        store_f(scores + 64 * i, zeros())
    set_softmax(result, dim, hmax(peak), hsum(total))
