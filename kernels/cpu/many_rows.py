"""Many rows: which tiles they are multiplied in, of AMX where the host has it or of vector registers.

Owns the choice, and from how many rows on there is one; knows neither kind of tile.
"""

from __future__ import annotations

from numba.extending import overload, register_jitable

from kernels.cpu.simd import HAS_AMX, MAX_TILE, OPTIONS, i64, inline_part
from kernels.cpu.simd.amx import release_tiles
from kernels.cpu.wide import make_panels, panel_scratch_bytes, times_panels
from kernels.cpu.wide_amx import TILE, amx_scratch_bytes, begin_amx, times_amx_tiles

# For fewer, narrow tiles are faster, which write nothing.
_MANY_ROWS = 40 if MAX_TILE > 4 else 24


@register_jitable
def wide_scratch_bytes(rows, k):
    """Of each thread."""
    return amx_scratch_bytes(rows, k) if HAS_AMX else panel_scratch_bytes(rows, k)


@inline_part
def is_wide(fmt, k, rows):
    """Whether a step of so many rows is worth it. AMX takes 32-column blocks in pairs."""
    if HAS_AMX:
        return fmt.has_spread and rows >= TILE and (fmt.run_len == 16 or k % 64 == 0)
    return fmt.has_spread and rows >= _MANY_ROWS


@inline_part
def begin_wide(fmt, x, stride, k, rows, spare):
    """Once before a thread's first group. spare: wide_scratch_bytes(rows, k) of its own."""
    if HAS_AMX:
        begin_amx(fmt, x, stride, k, rows, spare)
    else:
        make_panels(fmt, x, stride, k, rows, spare)


@inline_part
def end_wide():
    if HAS_AMX:
        release_tiles()


def wide_times_rows(fmt, w, next_w, spare, x, x_stride, k, first_row, rows, y, y_stride, add):
    """The group at w, for as many rows from first_row on as fill tiles; how many that were.

    x and y are at first_row, a multiple of every panel's rows. next_w: where the thread's next group
    is likely to be.
    """


@overload(wide_times_rows, jit_options=OPTIONS)
def _choose(fmt, w, next_w, spare, x, x_stride, k, first_row, rows, y, y_stride, add):
    """Only formats that can be unpacked have wide tiles to compile."""
    if not fmt.has_spread:
        return lambda fmt, w, next_w, spare, x, x_stride, k, first_row, rows, y, y_stride, add: i64(
            0
        )
    if HAS_AMX:
        return lambda fmt, w, next_w, spare, x, x_stride, k, first_row, rows, y, y_stride, add: (
            times_amx_tiles(fmt, w, spare, x, x_stride, k, first_row, rows, y, y_stride, add)
        )
    return lambda fmt, w, next_w, spare, x, x_stride, k, first_row, rows, y, y_stride, add: (
        times_panels(fmt, w, next_w, spare, k, first_row, rows, y, y_stride, add)
    )
