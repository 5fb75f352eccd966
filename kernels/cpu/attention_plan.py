"""How a step's attention is cut into tasks: planned once a step for all layers with the same window.

Owns the plan's memory layout and the op that writes it; knows no scores. Neighbouring rows of a
sequence form tiles that share a pass over keys and values. Where results of single runs fit into the
partial slots, every (tile, run) is a task of its own and `combine` merges them; else a tile is one
task that goes through its runs in the same order with the same arithmetic. Results do not differ.
"""

from kernels.cpu.layout import (
    CAPACITY,
    MAX_ROWS,
    NUM_COUNTERS,
    PLAN,
    RUN,
    S_POSITIONS,
    S_ROWS,
    S_SLOTS,
    TILE_ROWS,
    WINDOW,
)
from kernels.cpu.simd import i32, i64, inline_part, kernel_part, load1_i32, store1_i32

# A plan is int32 words: a header line, a line per attention op with its counter of claimed tasks,
# then per row (first partial slot, runs), then per task (first row, rows, first run, end run).
HEADER_BYTES = 64
COUNTER_BYTES = 64
_TASKS, _SPLIT, _COUNTERS, _MAX_ROWS = 0, 4, 8, 12  # offsets in the header


def plan_bytes(num_counters: int, max_rows: int, capacity: int) -> int:
    """Bytes of a plan. There are at most `capacity` tasks of one run each, or `max_rows` tiles."""
    tasks = 16 * max(max_rows, capacity)
    return HEADER_BYTES + COUNTER_BYTES * num_counters + 8 * max_rows + tasks


def counter_offset(index: int) -> int:
    return HEADER_BYTES + COUNTER_BYTES * index


@inline_part
def num_tasks(plan):
    return i64(load1_i32(plan + _TASKS))


@inline_part
def is_split(plan):
    return load1_i32(plan + _SPLIT) != 0


@inline_part
def _row_entry(plan, row):
    return plan + HEADER_BYTES + COUNTER_BYTES * i64(load1_i32(plan + _COUNTERS)) + 8 * row


@inline_part
def first_slot(plan, row):
    """The partial slot of a row's first run; its other runs follow."""
    return i64(load1_i32(_row_entry(plan, row)))


@inline_part
def num_runs(plan, row):
    return i64(load1_i32(_row_entry(plan, row) + 4))


@inline_part
def task(plan, index):
    """(first row, rows, first run, end run)"""
    p = _row_entry(plan, i64(load1_i32(plan + _MAX_ROWS))) + 16 * index
    return (
        i64(load1_i32(p)),
        i64(load1_i32(p + 4)),
        i64(load1_i32(p + 8)),
        i64(load1_i32(p + 12)),
    )


@inline_part
def first_visible(position, window):
    """The first position that a row at `position` attends to."""
    return max(position - window + 1, i64(0)) if window else i64(0)


@kernel_part
def _tile_rows(step, row):
    """How many rows from `row` on form a tile: neighbours in one sequence."""
    slot, position = load1_i32(step[S_SLOTS] + 4 * row), load1_i32(step[S_POSITIONS] + 4 * row)
    n = i64(1)
    while (
        n < TILE_ROWS
        and row + n < step[S_ROWS]
        and load1_i32(step[S_SLOTS] + 4 * (row + n)) == slot
        and load1_i32(step[S_POSITIONS] + 4 * (row + n)) == position + i32(n)
    ):
        n += 1
    return n


@inline_part
def _tile_runs(step, row, n, window):
    """First and end run of a tile: all that any of its rows sees."""
    first = i64(load1_i32(step[S_POSITIONS] + 4 * row))
    last = i64(load1_i32(step[S_POSITIONS] + 4 * (row + n - 1)))
    return first_visible(first, window) // RUN, last // RUN + 1


@inline_part
def _write_task(plan, index, row, n, first, end):
    p = _row_entry(plan, i64(load1_i32(plan + _MAX_ROWS))) + 16 * index
    store1_i32(p, i32(row))
    store1_i32(p + 4, i32(n))
    store1_i32(p + 8, i32(first))
    store1_i32(p + 12, i32(end))


def plan_attention(op, step, tid):
    """Thread 0 writes the plan and resets the counters of the ops that follow it."""
    if tid != 0:
        return
    plan, window, rows = op[PLAN], op[WINDOW], step[S_ROWS]
    store1_i32(plan + _COUNTERS, i32(op[NUM_COUNTERS]))
    store1_i32(plan + _MAX_ROWS, i32(op[MAX_ROWS]))
    row = slots = i64(0)
    while row < rows:
        n = _tile_rows(step, row)
        first, end = _tile_runs(step, row, n, window)
        slots += n * (end - first)
        row += n
    split = slots <= op[CAPACITY]
    row = slots = count = i64(0)
    while row < rows:
        n = _tile_rows(step, row)
        first, end = _tile_runs(step, row, n, window)
        for r in range(row, row + n):
            store1_i32(_row_entry(plan, r), i32(slots))
            store1_i32(_row_entry(plan, r) + 4, i32(end - first))
            slots += end - first
        if split:
            for run in range(first, end):
                _write_task(plan, count, row, n, run, run + 1)
                count += 1
        else:
            _write_task(plan, count, row, n, first, end)
            count += 1
        row += n
    store1_i32(plan + _TASKS, i32(count))
    store1_i32(plan + _SPLIT, i32(split))
    for i in range(op[NUM_COUNTERS]):
        store1_i32(plan + HEADER_BYTES + COUNTER_BYTES * i, i32(0))
