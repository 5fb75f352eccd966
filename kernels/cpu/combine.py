"""The end of attention: merge the runs of every row and head, in their order, into one output row.

Owns the op `combine`; knows no scores. Where attention went through all runs in one task there is
nothing left to merge, and only the quantising remains.
"""

from kernels.cpu import attention_plan
from kernels.cpu.layout import HEAD_DIM, HEADS, IN, IN_STRIDE, OUT_STRIDE, PLAN, QUANTISE, K
from kernels.cpu.quantise import quantise_row
from kernels.cpu.rows import my_rows, output_rows, scratch
from kernels.cpu.run_results import copy_result, finish, merge_run, partial
from kernels.cpu.simd import kernel_part, load_f, store_f


@kernel_part
def _copy(src, dst, num_bytes):
    for i in range(0, num_bytes, 64):
        store_f(dst + i, load_f(src + i))


@kernel_part
def _merge_row(op, row, dst, state):
    dim = op[HEAD_DIM]
    slot, runs = attention_plan.first_slot(op[PLAN], row), attention_plan.num_runs(op[PLAN], row)
    for head in range(op[HEADS]):
        if runs == 1:
            finish(partial(op, slot, head), dst + 4 * head * dim, dim)
        else:
            copy_result(partial(op, slot, head), state, dim)
            for run in range(1, runs):
                merge_run(state, partial(op, slot + run, head), dim)
            finish(state, dst + 4 * head * dim, dim)


def combine(op, step, tid):
    """Attention's results -> OUT, quantised if QUANTISE."""
    out = output_rows(op, step, tid)
    first, end = my_rows(op, step, tid)
    split, row = attention_plan.is_split(op[PLAN]), scratch(step, tid)
    for r in range(first, end):
        dst = out + r * op[OUT_STRIDE]
        floats = row if op[QUANTISE] else dst
        src = op[IN] + r * op[IN_STRIDE]
        if split:
            _merge_row(op, r, floats, row + 4 * op[K])
        elif op[QUANTISE]:
            floats = src
        else:
            _copy(src, dst, 4 * op[K])
        if op[QUANTISE]:
            quantise_row(floats, dst, op[K])
