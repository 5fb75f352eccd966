"""The likeliest token of every row of logits: how large its logit is, and its id.

Owns the op `find_best`, so that nobody has to read a vocabulary to be greedy; knows no sampling. Each
thread goes over its share of the columns of all rows, and the last one to be done merges what all found.
"""

import math

from kernels.cpu.layout import CLAIMED, IN, IN_STRIDE, OUT, PARTIALS, ROWS, S_THREADS, K
from kernels.cpu.simd import (
    atomic_add,
    f32,
    hmax,
    hsum,
    i32,
    inline_part,
    kernel_part,
    load1_f32,
    load1_i32,
    load_f,
    splat,
    store1_f32,
    store1_i32,
    vmax,
    zeros,
)
from kernels.cpu.simd.types import F32V, LANES, constant, define, f32x16

FOUND_BYTES = 8  # a logit f32, an id i32
_BLOCK = 64 * LANES  # columns: only the block with the largest value is searched for where it is

# NaN where x or y is, else as it was
_note_nans = define(
    f32x16,
    (f32x16, f32x16, f32x16),
    lambda b, a: b.select(b.fcmp_unordered("uno", a[1], a[2]), constant(F32V, math.nan), a[0]),
)


@inline_part
def _store(dst, peak, index):
    store1_f32(dst, peak)
    store1_i32(dst + 4, i32(index))


@kernel_part
def _find(row, first, end, dst):
    """The largest of columns [first, end) and the lowest that holds it; NaN if one of them is."""
    lowest, nans = splat(f32(-math.inf)), zeros()
    peak, at = f32(-math.inf), first
    for start in range(first, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        a = b = lowest
        whole = start + (stop - start) // (2 * LANES) * 2 * LANES
        for i in range(start, whole, 2 * LANES):
            x, y = load_f(row + 4 * i), load_f(row + 4 * i + 64)
            a, b, nans = vmax(x, a), vmax(y, b), _note_nans(nans, x, y)
        block_peak = hmax(vmax(a, b))
        for i in range(whole, stop):
            x = load1_f32(row + 4 * i)
            block_peak = x if x > block_peak or x != x else block_peak
        if block_peak > peak or block_peak != block_peak:
            peak, at = block_peak, start
    if peak != peak or hsum(nans) != 0.0:
        _store(dst, f32(math.nan), first)
        return
    while at < end and load1_f32(row + 4 * at) != peak:
        at += 1
    _store(dst, peak, at)


@kernel_part
def _merge(found, threads, dst):
    """Of equal ones the first: its columns come before the others'."""
    peak, index = load1_f32(found), load1_i32(found + 4)
    for other in range(found + FOUND_BYTES, found + threads * FOUND_BYTES, FOUND_BYTES):
        other_peak = load1_f32(other)
        if other_peak > peak or other_peak != other_peak:
            peak, index = other_peak, load1_i32(other + 4)
    _store(dst, peak, index)


def find_best(op, step, tid):
    """OUT (rows,), FOUND_BYTES each: the largest of K columns of IN and the lowest that holds it.

    The logit is NaN where one of the row is. PARTIALS has room for what each thread finds in each row.
    """
    rows, threads, columns = step[op[ROWS]], step[S_THREADS], op[K]
    vectors = columns // LANES
    first = vectors * tid // threads * LANES
    end = columns if tid == threads - 1 else vectors * (tid + 1) // threads * LANES
    for r in range(rows):
        found = op[PARTIALS] + r * threads * FOUND_BYTES
        _find(op[IN] + r * op[IN_STRIDE], first, end, found + tid * FOUND_BYTES)
    if atomic_add(op[CLAIMED], i32(1)) == threads - 1:
        for r in range(rows):
            found = op[PARTIALS] + r * threads * FOUND_BYTES
            _merge(found, threads, op[OUT] + r * FOUND_BYTES)
