"""What attention leaves of a run of positions, and how such results are merged and finished.

Owns the layout of a result and the online softmax; knows neither scores nor pages. A result is an
unnormalised output (head_dim,) f32, then the maximum of its scores and the sum of its weights.
Scores are in units of log 2 (the queries' scale carries the factor), so weights are powers of two.
"""

from kernels.cpu.layout import HEAD_DIM, HEADS, PARTIALS
from kernels.cpu.simd import (
    f32,
    fma,
    hmax,
    inline_part,
    kernel_part,
    load1_f32,
    load_f,
    splat,
    splat_load,
    store1_f32,
    store_f,
    vexp2,
    zeros,
)

LOWEST = -1e30  # the maximum of nothing
RESULT_TAIL = 16  # floats behind an output: its maximum, its sum, and padding


@inline_part
def result_bytes(dim):
    return 4 * (dim + RESULT_TAIL)


@inline_part
def partial(op, slot, head):
    """Where the result of one run of one row and head is kept for `combine`."""
    return op[PARTIALS] + (slot * op[HEADS] + head) * result_bytes(op[HEAD_DIM])


@kernel_part
def clear_result(result, dim):
    for d in range(0, 4 * dim, 64):
        store_f(result + d, zeros())


@kernel_part
def copy_result(src, dst, dim):
    for d in range(0, 4 * dim + 64, 64):
        store_f(dst + d, load_f(src + d))


@inline_part
def set_softmax(result, dim, top, total):
    store1_f32(result + 4 * dim, top)
    store1_f32(result + 4 * dim + 4, total)


@kernel_part
def merge_run(state, run, dim):
    """Fold the result of the next run into the state of all runs before it.

    m' = max(m, m_r); s' = s 2^(m - m') + s_r 2^(m_r - m'); the output like s. Source: the online
    softmax, Milakov & Gimelshein 2018. A run in which nothing is visible (sum 0) changes no bit.
    """
    top, top_run = load1_f32(state + 4 * dim), load1_f32(run + 4 * dim)
    peak = max(top, top_run)
    a, b = vexp2(splat(top) - splat(peak)), vexp2(splat(top_run) - splat(peak))
    for d in range(0, 4 * dim, 64):
        store_f(state + d, fma(load_f(state + d), a, load_f(run + d) * b))
    total = fma(splat_load(state + 4 * dim + 4), a, splat_load(run + 4 * dim + 4) * b)
    set_softmax(state, dim, peak, hmax(total))


@kernel_part
def finish(state, dst, dim):
    share = splat(f32(1.0)) / splat_load(state + 4 * dim + 4)
    for d in range(0, 4 * dim, 64):
        store_f(dst + d, load_f(state + d) * share)
