"""Which rows of an op a thread works on, and where its copy of them lies.

Owns the split of row ops between threads; knows no arithmetic. In a narrow step a private area holds
one copy of its rows per thread, at NARROW_ROWS rows' distance: row ops that write one do all rows on
every thread, and nobody waits. Shared areas hold every row once, and threads share the rows out.
"""

from kernels.cpu.layout import (
    ADDEND,
    ADDEND_SHARED,
    ADDEND_STRIDE,
    GATHER,
    IN,
    IN_SHARED,
    IN_STRIDE,
    NARROW_ROWS,
    OUT,
    OUT_SHARED,
    OUT_STRIDE,
    ROWS,
    S_LOGIT_ROWS,
    S_ROWS,
    S_SCRATCH,
    S_SCRATCH_BYTES,
    S_THREADS,
)
from kernels.cpu.simd import i64, inline_part, load1_i32


@inline_part
def _copy_of(base, stride, shared, rows, tid):
    return base if shared or rows > NARROW_ROWS else base + tid * NARROW_ROWS * stride


@inline_part
def input_rows(op, step, tid):
    """Address of row 0 of the input. With GATHER the input has all rows of the step."""
    rows = step[S_ROWS] if op[GATHER] else step[op[ROWS]]
    return _copy_of(op[IN], op[IN_STRIDE], op[IN_SHARED], rows, tid)


@inline_part
def addend_rows(op, step, tid):
    return _copy_of(op[ADDEND], op[ADDEND_STRIDE], op[ADDEND_SHARED], step[op[ROWS]], tid)


@inline_part
def output_rows(op, step, tid):
    return _copy_of(op[OUT], op[OUT_STRIDE], op[OUT_SHARED], step[op[ROWS]], tid)


@inline_part
def my_rows(op, step, tid):
    """First row and end of this thread's share: all of them where it makes its own copy."""
    rows, threads = step[op[ROWS]], step[S_THREADS]
    if rows <= NARROW_ROWS and not op[OUT_SHARED]:
        return i64(0), rows
    return rows * tid // threads, rows * (tid + 1) // threads


@inline_part
def source_row(op, step, r):
    """The input row that output row r is made from: with GATHER, the r-th row that wants logits."""
    return i64(load1_i32(step[S_LOGIT_ROWS] + 4 * r)) if op[GATHER] else r


@inline_part
def scratch(step, tid):
    """This thread's own scratch bytes."""
    return step[S_SCRATCH] + tid * step[S_SCRATCH_BYTES]
