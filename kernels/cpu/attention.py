"""Attention of ragged rows over pages of keys and values.

Owns how a task's queries go through runs of RUN positions that start at multiples of RUN; knows
neither how tasks were cut (attention_plan), nor how pages look (kv_pages), nor the arithmetic
(query_blocks, run_results). All queries of a task, the heads of a group in neighbouring rows of one
sequence, share each page: it is read and widened once. What a query gets depends on its own positions
only: what it must not see is left out or given weight zero, and adding zeros changes no bit.
"""

from kernels.cpu import attention_plan
from kernels.cpu.attention_plan import first_visible, is_split, num_tasks
from kernels.cpu.kv_pages import head_page, values_of, widen_keys, widen_values
from kernels.cpu.kv_types import part_bytes
from kernels.cpu.layout import (
    COUNTER,
    HEAD_DIM,
    HEADS,
    IN,
    IN_STRIDE,
    KV_HEADS,
    KV_TYPE,
    OUT,
    OUT_STRIDE,
    PAGE,
    PLAN,
    RUN,
    S_POSITIONS,
    WINDOW,
)
from kernels.cpu.query_blocks import (
    LARGE,
    MAX_QUERIES,
    ROW_BYTES,
    SCORES_BYTES,
    SMALL,
    block_outputs,
    block_scores,
    is_large,
    softmax_run,
)
from kernels.cpu.rows import scratch
from kernels.cpu.run_results import clear_result, copy_result, finish, merge_run, partial
from kernels.cpu.simd import (
    atomic_add,
    i32,
    i64,
    inline_part,
    kernel_part,
    load1_i32,
    load1_i64,
    load_f,
    store1_i64,
    store_f,
)

PARTS_AHEAD = 2  # while a page's keys (or values) are worked on, the second next part is fetched

# Scratch of a thread: queries, their positions, scores, results of a run and of all runs before it,
# then a widened page.
_ROWS = MAX_QUERIES + LARGE  # the last block may be partly empty
_POSITIONS = _ROWS * ROW_BYTES
_SCORES = _POSITIONS + _ROWS * 8 // 64 * 64 + 64
_WORK = _SCORES + _ROWS * SCORES_BYTES
_STATE = _WORK + _ROWS * ROW_BYTES
_WIDENED = _STATE + _ROWS * ROW_BYTES


def attention_scratch_bytes(dim: int) -> int:
    return _WIDENED + 4 * PAGE * dim


@inline_part
def _position(step, row):
    return i64(load1_i32(step[S_POSITIONS] + 4 * row))


@inline_part
def _row_and_head(op, task, query):
    """Of a task's query: all heads of its first row, then of the next. Past the end: the last one."""
    row0, kv_head, first, n = task
    group, q = op[HEADS] // op[KV_HEADS], first + min(query, n - 1)
    return row0 + q // group, kv_head * group + q % group


@inline_part
def _position_of(base, query):
    return load1_i64(base + _POSITIONS + 8 * query)


@inline_part
def _block_len(num_left):
    return i64(LARGE) if is_large(num_left) else i64(SMALL)


@kernel_part
def _gather_queries(op, step, task, base):
    """Copy a task's queries side by side; those that fill up the last block repeat the last one."""
    dim, i = op[HEAD_DIM], i64(0)
    while i < task[3]:
        for j in range(i, i + _block_len(task[3] - i)):
            row, head = _row_and_head(op, task, j)
            store1_i64(base + _POSITIONS + 8 * j, _position(step, row))
            src = op[IN] + row * op[IN_STRIDE] + 4 * head * dim
            for d in range(0, 4 * dim, 64):
                store_f(base + j * ROW_BYTES + d, load_f(src + d))
        i += _block_len(task[3] - i)


@inline_part
def _pages(op, base, query, end_query, run):
    """First and end page of a run that any of the queries sees; rows ascend."""
    start = run * RUN
    low, high = (
        first_visible(_position_of(base, query), op[WINDOW]),
        _position_of(base, end_query - 1),
    )
    first = max(low, start) // PAGE
    return first, max(min(high, start + RUN - 1) // PAGE + 1, first)


@inline_part
def _share(op, task, query, size, ahead):
    """A block's share of the part of a page that lies ahead: its address, its bytes."""
    num_bytes = part_bytes(op[KV_TYPE], op[HEAD_DIM])
    first, end = num_bytes * query // task[3], num_bytes * min(query + size, task[3]) // task[3]
    return ahead + first, end - first


@kernel_part
def _scores_of_page(op, task, run, page, base, ahead):
    i = i64(0)
    while i < task[3]:
        size = _block_len(task[3] - i)
        first, end = _pages(op, base, i, i + size, run)
        if first <= page < end:
            at = base + _SCORES + i * SCORES_BYTES + 4 * (page * PAGE - run * RUN)
            queries, keys, large = base + i * ROW_BYTES, base + _WIDENED, is_large(task[3] - i)
            fetched, num_bytes = _share(op, task, i, size, ahead)
            block_scores(large, keys, queries, op[HEAD_DIM], at, fetched, num_bytes)
        i += size


@kernel_part
def _softmax(op, task, run, base, results):
    i, start, dim = i64(0), run * RUN, op[HEAD_DIM]
    while i < task[3]:
        size = _block_len(task[3] - i)
        first, end = _pages(op, base, i, i + size, run)
        begin, stop = (first * PAGE - start) // 16, (end * PAGE - start) // 16
        for j in range(i, i + size):
            position = _position_of(base, j)
            low, last = first_visible(position, op[WINDOW]) - start, position - start
            result = results + j * ROW_BYTES
            clear_result(result, dim)
            softmax_run(base + _SCORES + j * SCORES_BYTES, begin, stop, low, last, result, dim)
        i += size


@kernel_part
def _outputs_of_page(op, task, run, page, base, results, ahead):
    i, dim, start = i64(0), op[HEAD_DIM], run * RUN
    while i < task[3]:
        size = _block_len(task[3] - i)
        low = first_visible(_position_of(base, i), op[WINDOW])
        high = _position_of(base, i + size - 1)
        begin, end = max(low - page * PAGE, i64(0)), min(high + 1 - page * PAGE, i64(PAGE))
        if begin < end:
            weights = base + _SCORES + i * SCORES_BYTES + 4 * (page * PAGE + begin - start)
            values, large = base + _WIDENED + 4 * dim * begin, is_large(task[3] - i)
            fetched, num_bytes = _share(op, task, i, size, ahead)
            out, count = results + i * ROW_BYTES, end - begin
            block_outputs(large, values, dim, weights, count, out, fetched, num_bytes)
        i += size


@inline_part
def _part(op, step, task, pages, index, after):
    """Where the parts of pages lie in the order in which they are read: keys of `pages` (first, end), their
    values, then what comes after (row, kv_head, page): keys of the pages from there on."""
    first, end = pages
    n, row, kv_head = end - first, task[0], task[1]
    if index < 2 * n:
        keys = head_page(op, step, row, first + index % n, kv_head)
        return keys if index < n else values_of(op, keys)
    return head_page(op, step, after[0], min(after[2] + index - 2 * n, after[3]), after[1])


@kernel_part
def _over_run(op, step, task, run, base, results, after):
    """Results of a task's queries over one run.

    Pages are scattered and cold (weights have swept the caches since the last step): while one part
    of a page is worked on, the part after the next is fetched.
    """
    row, kv_head = task[0], task[1]
    first, end = pages = _pages(op, base, 0, task[3], run)
    n = end - first
    for i in range(n):
        widen_keys(op, head_page(op, step, row, first + i, kv_head), base + _WIDENED)
        ahead = _part(op, step, task, pages, i + PARTS_AHEAD, after)
        _scores_of_page(op, task, run, first + i, base, ahead)
    _softmax(op, task, run, base, results)
    for i in range(n):
        keys = head_page(op, step, row, first + i, kv_head)
        widen_values(op, values_of(op, keys), base + _WIDENED)
        ahead = _part(op, step, task, pages, n + i + PARTS_AHEAD, after)
        _outputs_of_page(op, task, run, first + i, base, results, ahead)


@kernel_part
def _split_task(op, step, task, run, first_run, base, after):
    """One run into the partial slots."""
    _over_run(op, step, task, run, base, base + _WORK, after)
    for i in range(task[3]):
        row, head = _row_and_head(op, task, i)
        slot = attention_plan.first_slot(op[PLAN], row) + run - first_run
        copy_result(base + _WORK + i * ROW_BYTES, partial(op, slot, head), op[HEAD_DIM])


@kernel_part
def _whole_task(op, step, task, first_run, end_run, base, after):
    """All runs, one after another, into the output rows."""
    dim, state, work = op[HEAD_DIM], base + _STATE, base + _WORK
    last_page = _position_of(base, task[3] - 1) // PAGE
    for run in range(first_run, end_run):
        follows = (task[0], task[1], (run + 1) * RUN // PAGE, last_page)
        if run + 1 == end_run:
            follows = after
        _over_run(op, step, task, run, base, state if run == first_run else work, follows)
        if run == first_run:
            continue
        for i in range(task[3]):
            merge_run(state + i * ROW_BYTES, work + i * ROW_BYTES, dim)
    for i in range(task[3]):
        row, head = _row_and_head(op, task, i)
        finish(state + i * ROW_BYTES, op[OUT] + row * op[OUT_STRIDE] + 4 * head * dim, dim)


@inline_part
def _claim(op):
    """The next task and KV head; negative: none is left. A prompt's last rows see most and go first."""
    total = num_tasks(op[PLAN]) * op[KV_HEADS]
    return total - 1 - i64(atomic_add(op[COUNTER], i32(1)))


@inline_part
def _first_pages(op, step, claimed):
    """Where a claimed task begins to read: row, KV head, first page, last page."""
    kv_heads = op[KV_HEADS]
    row0, _, first_run, end_run = attention_plan.task(op[PLAN], claimed // kv_heads)
    position = _position(step, row0)
    first = max(first_visible(position, op[WINDOW]), first_run * RUN) // PAGE
    return row0, claimed % kv_heads, first, max(min(position, end_run * RUN - 1) // PAGE, first)


def attention(op, step, tid):
    """Threads claim tasks from a counter: causal tiles and ragged sequences cost unequal time. They
    claim one ahead, to know what to fetch."""
    plan, kv_heads = op[PLAN], op[KV_HEADS]
    group, split, base = op[HEADS] // kv_heads, is_split(plan), scratch(step, tid)
    claimed = _claim(op)
    while claimed >= 0:
        following = _claim(op)
        after = _first_pages(op, step, max(following, i64(0)))
        row0, num_rows, first_run, end_run = attention_plan.task(plan, claimed // kv_heads)
        tile_first = first_visible(_position(step, row0), op[WINDOW]) // RUN
        for first in range(0, num_rows * group, MAX_QUERIES):
            n = min(num_rows * group - first, i64(MAX_QUERIES))
            task = (row0, claimed % kv_heads, i64(first), n)
            _gather_queries(op, step, task, base)
            if split:
                _split_task(op, step, task, first_run, tile_first, base, after)
            else:
                _whole_task(op, step, task, first_run, end_run, base, after)
        claimed = following
