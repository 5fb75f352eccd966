"""Attention of ragged rows over pages of keys and values.

Owns scores, weights and weighted sums over runs of RUN positions that start at multiples of RUN, and
the merge of runs in order; knows neither how tasks were cut (attention_plan) nor how pages look
inside a sequence (kv_pages). Four queries go through a page at a time, so each key and value vector is
loaded and widened once for all of them. What a query gets depends on its own positions only: what it
must not see is given weight zero, and adding zeros changes no bit.
"""

from kernels.cpu import attention_plan
from kernels.cpu.attention_plan import first_visible, is_split, num_tasks
from kernels.cpu.kv_pages import head_page
from kernels.cpu.layout import (
    COUNTER,
    HEAD_DIM,
    HEADS,
    IN,
    IN_STRIDE,
    KV_HEADS,
    OUT,
    OUT_STRIDE,
    PAGE,
    PARTIALS,
    PLAN,
    RUN,
    S_POSITIONS,
    WINDOW,
)
from kernels.cpu.rows import scratch
from kernels.cpu.simd import (
    atomic_add,
    f32,
    fma,
    hmax,
    hsum,
    i32,
    i64,
    inline_part,
    kernel_part,
    load1_f32,
    load1_i32,
    load_f,
    load_f16,
    mask_before,
    mask_beyond,
    prefetch,
    splat,
    splat_load,
    store1_f32,
    store_f,
    vexp,
    vmax,
    zeros,
)

LOWEST = -1e30
SCORES_BYTES = 4 * 4 * RUN  # of four queries over a run
PAGES_AHEAD = (
    2  # values of so many pages are fetched during scores, later ones while values are read
)
PARTIAL_TAIL = 16  # floats behind a partial output: its maximum, its sum, and padding


# ---- results over runs: an unnormalised output (head_dim,) f32, then its maximum and sum ---------


@inline_part
def partial_bytes(dim):
    return 4 * (dim + PARTIAL_TAIL)


@inline_part
def partial(op, slot, head):
    return op[PARTIALS] + (slot * op[HEADS] + head) * partial_bytes(op[HEAD_DIM])


@kernel_part
def merge_run(state, run, dim):
    """Fold the result of the next run into the state of all runs before it.

    m' = max(m, m_r); s' = s e^(m - m') + s_r e^(m_r - m'); the output like s. Source: the online
    softmax, Milakov & Gimelshein 2018. A run in which nothing is visible (sum 0) changes no bit.
    """
    top, top_run = load1_f32(state + 4 * dim), load1_f32(run + 4 * dim)
    peak = max(top, top_run)
    a, b = vexp(splat(top) - splat(peak)), vexp(splat(top_run) - splat(peak))
    for d in range(0, 4 * dim, 64):
        store_f(state + d, fma(load_f(state + d), a, load_f(run + d) * b))
    total = fma(splat_load(state + 4 * dim + 4), a, splat_load(run + 4 * dim + 4) * b)
    store1_f32(state + 4 * dim, peak)
    store1_f32(state + 4 * dim + 4, hmax(total))


@kernel_part
def finish(state, dst, dim):
    total = splat_load(state + 4 * dim + 4)
    for d in range(0, 4 * dim, 64):
        store_f(dst + d, load_f(state + d) / total)


# ---- four queries over one run -------------------------------------------------------------------


@kernel_part
def _scores(keys, next_keys, values, dim, q0, q1, q2, q3, out):
    """4 queries x 32 positions of a page: 8 accumulators, one broadcast and two key vectors a step.

    Pages are scattered and cold (weights have swept the caches since the last step), so each step
    also fetches a line of the next page's keys and one of values.
    """
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = zeros()
    for d in range(dim):
        k0, k1 = load_f16(keys + 64 * d), load_f16(keys + 64 * d + 32)
        prefetch(values + 64 * d)
        prefetch(next_keys + 64 * d)
        x = splat_load(q0 + 4 * d)
        a0, a1 = fma(x, k0, a0), fma(x, k1, a1)
        x = splat_load(q1 + 4 * d)
        b0, b1 = fma(x, k0, b0), fma(x, k1, b1)
        x = splat_load(q2 + 4 * d)
        c0, c1 = fma(x, k0, c0), fma(x, k1, c1)
        x = splat_load(q3 + 4 * d)
        d0, d1 = fma(x, k0, d0), fma(x, k1, d1)
    _store_pair(out, a0, a1)
    _store_pair(out + 4 * RUN, b0, b1)
    _store_pair(out + 8 * RUN, c0, c1)
    _store_pair(out + 12 * RUN, d0, d1)


@inline_part
def _store_pair(address, x0, x1):
    store_f(address, x0)
    store_f(address + 64, x1)


@kernel_part
def _softmax_run(scores, begin, end, first, last, out):
    """Scores of one query at vectors [begin, end) of a run -> weights, in place; maximum and sum to `out`.

    first, last: the positions it may see, counted from the start of the run.
    """
    peak = splat(f32(LOWEST))
    for i in range(begin, end):
        v = mask_beyond(load_f(scores + 64 * i), 16 * i, last, f32(LOWEST))
        peak = vmax(peak, mask_before(v, 16 * i, first, f32(LOWEST)))
    top = hmax(peak)
    total = zeros()
    for i in range(begin, end):
        w = vexp(load_f(scores + 64 * i) - splat(top))
        w = mask_before(mask_beyond(w, 16 * i, last, f32(0.0)), 16 * i, first, f32(0.0))
        store_f(scores + 64 * i, w)
        total = total + w
    store1_f32(out, top)
    store1_f32(out + 4, hsum(total))


@kernel_part
def _weighted_32(op, step, row, kv_head, pages, d, scores, o0, o1, o2, o3):
    """32 features (from d) of 4 outputs over a run: 8 accumulators. pages: (first, end, of the run)."""
    dim = op[HEAD_DIM]
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = zeros()
    for page in range(pages[0], pages[1]):
        values = head_page(op, step, row, page, kv_head) + 2 * (dim * PAGE + d)
        ahead = min(page + PAGES_AHEAD, pages[1] - 1)
        upcoming = head_page(op, step, row, ahead, kv_head) + 2 * (dim * PAGE + d)
        w = scores + 4 * PAGE * (page - pages[2])
        for i in range(PAGE):
            v0, v1 = load_f16(values + 2 * dim * i), load_f16(values + 2 * dim * i + 32)
            prefetch(upcoming + 2 * dim * i)
            x = splat_load(w + 4 * i)
            a0, a1 = fma(x, v0, a0), fma(x, v1, a1)
            x = splat_load(w + 4 * RUN + 4 * i)
            b0, b1 = fma(x, v0, b0), fma(x, v1, b1)
            x = splat_load(w + 8 * RUN + 4 * i)
            c0, c1 = fma(x, v0, c0), fma(x, v1, c1)
            x = splat_load(w + 12 * RUN + 4 * i)
            d0, d1 = fma(x, v0, d0), fma(x, v1, d1)
    _store_pair(o0 + 4 * d, a0, a1)
    _store_pair(o1 + 4 * d, b0, b1)
    _store_pair(o2 + 4 * d, c0, c1)
    _store_pair(o3 + 4 * d, d0, d1)


@kernel_part
def _weighted_16(op, step, row, kv_head, pages, d, scores, o0, o1, o2, o3):
    """The last 16 features, where head_dim is an odd multiple of 16."""
    dim = op[HEAD_DIM]
    a = b = c = e = zeros()
    for page in range(pages[0], pages[1]):
        values = head_page(op, step, row, page, kv_head) + 2 * (dim * PAGE + d)
        w = scores + 4 * PAGE * (page - pages[2])
        for i in range(PAGE):
            v = load_f16(values + 2 * dim * i)
            a, b = fma(splat_load(w + 4 * i), v, a), fma(splat_load(w + 4 * RUN + 4 * i), v, b)
            c = fma(splat_load(w + 8 * RUN + 4 * i), v, c)
            e = fma(splat_load(w + 12 * RUN + 4 * i), v, e)
    store_f(o0 + 4 * d, a)
    store_f(o1 + 4 * d, b)
    store_f(o2 + 4 * d, c)
    store_f(o3 + 4 * d, e)


@inline_part
def _query(group, i, num_queries, row0, kv_head):
    """Query i of a tile -> (row, head). Past the end: the last one again, computed twice to no effect."""
    i = min(i, num_queries - 1)
    return row0 + i // group, kv_head * group + i % group


@inline_part
def _query_address(op, row, head):
    return op[IN] + row * op[IN_STRIDE] + 4 * head * op[HEAD_DIM]


@inline_part
def _position(step, row):
    return i64(load1_i32(step[S_POSITIONS] + 4 * row))


@kernel_part
def _four_over_run(op, step, queries, kv_head, run, scores, o0, o1, o2, o3):
    """Results of four queries over one run. queries: their rows and heads, rows ascending.

    Pages before the first or after the last position that any of them sees are left alone.
    """
    r0, h0, r1, h1, r2, h2, r3, h3 = queries
    dim, window, start = op[HEAD_DIM], op[WINDOW], run * RUN
    p0, p1, p2, p3 = (
        _position(step, r0),
        _position(step, r1),
        _position(step, r2),
        _position(step, r3),
    )
    first = max(first_visible(p0, window), start) // PAGE
    end = max(min(p3, start + RUN - 1) // PAGE + 1, first)
    run_page = start // PAGE
    q0, q1 = _query_address(op, r0, h0), _query_address(op, r1, h1)
    q2, q3 = _query_address(op, r2, h2), _query_address(op, r3, h3)
    if first < end:
        keys = head_page(op, step, r0, first, kv_head)
        for page in range(first, end):
            next_keys = head_page(op, step, r0, min(page + 1, end - 1), kv_head)
            values = keys + 2 * dim * PAGE if page < first + PAGES_AHEAD else next_keys
            at = scores + 4 * PAGE * (page - run_page)
            _scores(keys, next_keys, values, dim, q0, q1, q2, q3, at)
            keys = next_keys
    begin, stop = 2 * (first - run_page), 2 * (end - run_page)
    f0, f1 = first_visible(p0, window) - start, first_visible(p1, window) - start
    f2, f3 = first_visible(p2, window) - start, first_visible(p3, window) - start
    _softmax_run(scores, begin, stop, f0, p0 - start, o0 + 4 * dim)
    _softmax_run(scores + 4 * RUN, begin, stop, f1, p1 - start, o1 + 4 * dim)
    _softmax_run(scores + 8 * RUN, begin, stop, f2, p2 - start, o2 + 4 * dim)
    _softmax_run(scores + 12 * RUN, begin, stop, f3, p3 - start, o3 + 4 * dim)
    pages = (first, end, run_page)
    for d in range(0, dim - 16, 32):
        _weighted_32(op, step, r0, kv_head, pages, d, scores, o0, o1, o2, o3)
    if dim % 32:
        _weighted_16(op, step, r0, kv_head, pages, dim - 16, scores, o0, o1, o2, o3)


# ---- tasks ---------------------------------------------------------------------------------------


@inline_part
def _slot(op, row, run, first_run):
    return attention_plan.first_slot(op[PLAN], row) + run - first_run


@kernel_part
def _split_task(op, step, queries, kv_head, run, first_run, scores):
    """One run of four queries into its partial slots."""
    r0, h0, r1, h1, r2, h2, r3, h3 = queries
    o0 = partial(op, _slot(op, r0, run, first_run), h0)
    o1 = partial(op, _slot(op, r1, run, first_run), h1)
    o2 = partial(op, _slot(op, r2, run, first_run), h2)
    o3 = partial(op, _slot(op, r3, run, first_run), h3)
    _four_over_run(op, step, queries, kv_head, run, scores, o0, o1, o2, o3)


@kernel_part
def _whole_task(op, step, queries, kv_head, first_run, end_run, scores):
    """All runs of four queries, one after another, into their output rows."""
    r0, h0, r1, h1, r2, h2, r3, h3 = queries
    dim = op[HEAD_DIM]
    n = partial_bytes(dim)
    state = scores + SCORES_BYTES
    work = state + 4 * n
    _four_over_run(
        op,
        step,
        queries,
        kv_head,
        first_run,
        scores,
        state,
        state + n,
        state + 2 * n,
        state + 3 * n,
    )
    for run in range(first_run + 1, end_run):
        _four_over_run(
            op, step, queries, kv_head, run, scores, work, work + n, work + 2 * n, work + 3 * n
        )
        for i in range(4):
            merge_run(state + i * n, work + i * n, dim)
    out, stride = op[OUT], op[OUT_STRIDE]
    finish(state, out + r0 * stride + 4 * h0 * dim, dim)
    finish(state + n, out + r1 * stride + 4 * h1 * dim, dim)
    finish(state + 2 * n, out + r2 * stride + 4 * h2 * dim, dim)
    finish(state + 3 * n, out + r3 * stride + 4 * h3 * dim, dim)


def attention(op, step, tid):
    """Threads claim tasks from a counter: causal tiles and ragged sequences cost unequal time.

    The last rows of a prompt see most, so they go first.
    """
    plan, kv_heads = op[PLAN], op[KV_HEADS]
    group, total = op[HEADS] // kv_heads, num_tasks(plan) * kv_heads
    split, scores = is_split(plan), scratch(step, tid)
    while True:
        claimed = total - 1 - i64(atomic_add(op[COUNTER], i32(1)))
        if claimed < 0:
            break
        row0, count, first_run, end_run = attention_plan.task(plan, claimed // kv_heads)
        h = claimed % kv_heads
        n = count * group
        tile_first = first_visible(_position(step, row0), op[WINDOW]) // RUN
        for i in range(0, n, 4):
            r0, h0 = _query(group, i, n, row0, h)
            r1, h1 = _query(group, i + 1, n, row0, h)
            r2, h2 = _query(group, i + 2, n, row0, h)
            r3, h3 = _query(group, i + 3, n, row0, h)
            queries = (r0, h0, r1, h1, r2, h2, r3, h3)
            if split:
                _split_task(op, step, queries, h, first_run, tile_first, scores)
            else:
                _whole_task(op, step, queries, h, first_run, end_run, scores)
