"""Attention of ragged rows over pages of keys and values.

Owns how a task's queries go through runs of RUN positions that start at multiples of RUN; knows
neither how tasks were cut (attention_plan), nor how pages look (kv_pages), nor the arithmetic
(query_blocks, run_results). All queries of a task, the heads of a group in neighbouring rows of one
sequence, share each page: it is read and widened once. What a query gets depends on its own positions
only: what it must not see is left out or given weight zero, and adding zeros changes no bit.
"""

from kernels.cpu import attention_plan
from kernels.cpu.attention_plan import first_visible, is_split, num_tasks
from kernels.cpu.kv_pages import (
    can_read_halves,
    head_page,
    readable_keys,
    readable_values,
    values_of,
)
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
    S_THREADS,
    WINDOW,
)
from kernels.cpu.query_blocks import (
    LARGE,
    MAX_QUERIES,
    ROW_BYTES,
    SCORES_BYTES,
    block_len,
    block_outputs,
    block_scores,
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


@kernel_part
def _gather_queries(op, step, task, base):
    """Copy a task's queries side by side; those that fill up the last block repeat the last one."""
    dim, i = op[HEAD_DIM], i64(0)
    while i < task[3]:
        for j in range(i, i + block_len(task[3] - i)):
            row, head = _row_and_head(op, task, j)
            store1_i64(base + _POSITIONS + 8 * j, _position(step, row))
            src = op[IN] + row * op[IN_STRIDE] + 4 * head * dim
            for d in range(0, 4 * dim, 64):
                store_f(base + j * ROW_BYTES + d, load_f(src + d))
        i += block_len(task[3] - i)


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
def _reads_halves(op, task):
    """Several blocks would widen a page as often: then it is done once, beforehand."""
    return can_read_halves(op) and task[3] <= LARGE


@inline_part
def _share(task, query, size, ahead):
    """A block's share of what lies ahead (address, bytes)."""
    address, num_bytes = ahead
    first, end = num_bytes * query // task[3], num_bytes * min(query + size, task[3]) // task[3]
    return address + first, end - first


@kernel_part
def _scores_of_page(op, task, run, page, keys, base, ahead):
    i = i64(0)
    while i < task[3]:
        size = block_len(task[3] - i)
        first, end = _pages(op, base, i, i + size, run)
        if first <= page < end:
            at = base + _SCORES + i * SCORES_BYTES + 4 * (page * PAGE - run * RUN)
            halves, queries = _reads_halves(op, task), base + i * ROW_BYTES
            fetched, num_bytes = _share(task, i, size, ahead)
            block_scores(halves, size, keys, queries, op[HEAD_DIM], at, fetched, num_bytes)
        i += size


@kernel_part
def _softmax(op, task, run, base, results):
    i, start, dim = i64(0), run * RUN, op[HEAD_DIM]
    while i < task[3]:
        size = block_len(task[3] - i)
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
def _outputs_of_page(op, task, run, page, values, base, results, ahead):
    i, dim, start = i64(0), op[HEAD_DIM], run * RUN
    while i < task[3]:
        size = block_len(task[3] - i)
        low = first_visible(_position_of(base, i), op[WINDOW])
        high = _position_of(base, i + size - 1)
        begin, end = max(low - page * PAGE, i64(0)), min(high + 1 - page * PAGE, i64(PAGE))
        if begin < end:
            weights = base + _SCORES + i * SCORES_BYTES + 4 * (page * PAGE + begin - start)
            halves = _reads_halves(op, task)
            first_value = values + (2 if halves else 4) * dim * begin
            fetched, num_bytes = _share(task, i, size, ahead)
            out, count = results + i * ROW_BYTES, end - begin
            block_outputs(halves, size, first_value, dim, weights, count, out, fetched, num_bytes)
        i += size


@inline_part
def _part(op, step, pages, index):
    """The index-th part of pages (row, KV head, first, end, last position) in the order in which they
    are read, keys and then values, and its bytes: values only as far as there are any."""
    row, kv_head, first, end, last = pages
    n, num_bytes = end - first, part_bytes(op[KV_TYPE], op[HEAD_DIM])
    page = first + min(index, 2 * n - 1) % n
    keys = head_page(op, step, row, page, kv_head)
    if index < n:
        return keys, num_bytes
    return values_of(op, keys), num_bytes * min(last + 1 - page * PAGE, i64(PAGE)) // PAGE


@inline_part
def _ahead(op, step, pages, index, after):
    """The part PARTS_AHEAD of the index-th: of these pages or of those that come after them."""
    index += PARTS_AHEAD
    num_parts = 2 * (pages[3] - pages[2])
    if index < num_parts:
        return _part(op, step, pages, index)
    return _part(op, step, after, index - num_parts)


@kernel_part
def _over_run(op, step, task, run, base, results, after):
    """Results of a task's queries over one run.

    Pages are scattered and cold (weights have swept the caches since the last step): while one part
    of a page is worked on, the part after the next is fetched.
    """
    row, kv_head = task[0], task[1]
    first, end = _pages(op, base, 0, task[3], run)
    pages = (row, kv_head, first, end, _position_of(base, task[3] - 1))
    n, halves = end - first, _reads_halves(op, task)
    for i in range(n):
        keys = head_page(op, step, row, first + i, kv_head)
        keys = readable_keys(op, keys, halves, base + _WIDENED)
        ahead = _ahead(op, step, pages, i, after)
        _scores_of_page(op, task, run, first + i, keys, base, ahead)
    _softmax(op, task, run, base, results)
    for i in range(n):
        values = values_of(op, head_page(op, step, row, first + i, kv_head))
        values = readable_values(op, values, halves, base + _WIDENED)
        ahead = _ahead(op, step, pages, n + i, after)
        _outputs_of_page(op, task, run, first + i, values, base, results, ahead)


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
    last = _position_of(base, task[3] - 1)
    for run in range(first_run, end_run):
        begin = (run + 1) * RUN // PAGE
        follows = (task[0], task[1], begin, min(last // PAGE + 1, begin + RUN // PAGE), last)
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
def _pages_of(op, step, claimed):
    """Those that a claimed task begins to read, as _part takes them."""
    kv_heads = op[KV_HEADS]
    row0, num_rows, first_run, _ = attention_plan.task(op[PLAN], claimed // kv_heads)
    position, last = _position(step, row0), _position(step, row0 + num_rows - 1)
    first = max(first_visible(position, op[WINDOW]), first_run * RUN) // PAGE
    end = min(last, (first_run + 1) * RUN - 1) // PAGE + 1
    return row0, claimed % kv_heads, first, max(end, first + 1), last


def attention(op, step, tid):
    """Threads claim tasks from a counter: causal tiles and ragged sequences cost unequal time.

    While they take turns, a thread's next task is as many further as there are threads; its first pages
    are fetched ahead. To claim it so early would leave one thread two tasks and another one none.
    """
    plan, kv_heads = op[PLAN], op[KV_HEADS]
    group, split, base = op[HEADS] // kv_heads, is_split(plan), scratch(step, tid)
    claimed = _claim(op)
    while claimed >= 0:
        next_turn = claimed - step[S_THREADS]
        after = _pages_of(op, step, next_turn if next_turn >= 0 else claimed)
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
        claimed = _claim(op)
