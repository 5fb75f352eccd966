"""Pages of keys and values: where a head's part lies and what it looks like.

Owns the f16 page layout; knows no attention. A page holds PAGE positions of all KV heads of one layer.
The part of one head is its keys, transposed (f16 [head_dim][PAGE]: neighbouring positions fill a
vector, so scores need no horizontal sums), then its values (f16 [PAGE][head_dim]).
"""

from kernels.cpu.layout import HEAD_DIM, KV, KV_HEADS, PAGE, S_MAX_PAGES, S_PAGES, S_SLOTS
from kernels.cpu.simd import (
    f32,
    i64,
    inline_part,
    kernel_part,
    load1_i32,
    load_f,
    scatter_f16,
    splat,
    store_f16,
    vmax,
    vmin,
)

F16_MAX = 65504.0


@inline_part
def head_page(op, step, row, page_index, kv_head):
    """Address of one head's part of the page_index-th page of the row's sequence."""
    slot = i64(load1_i32(step[S_SLOTS] + 4 * row))
    page = i64(load1_i32(step[S_PAGES] + 4 * (slot * step[S_MAX_PAGES] + page_index)))
    return op[KV] + (page * op[KV_HEADS] + kv_head) * 4 * PAGE * op[HEAD_DIM]


@inline_part
def _saturate(v):
    """Into the range of f16: an infinity left in a page would turn a later reader's zeros into NaN."""
    return vmax(vmin(v, splat(f32(F16_MAX))), splat(f32(-F16_MAX)))


@kernel_part
def append(page, offset, key, value, dim):
    """Put one position's key and value (dim,) f32 at `offset` of a head's page."""
    for d in range(0, dim, 16):
        scatter_f16(page + 2 * (d * PAGE + offset), _saturate(load_f(key + 4 * d)), 2 * PAGE)
        store_f16(page + 2 * (dim * PAGE + offset * dim + d), _saturate(load_f(value + 4 * d)))
