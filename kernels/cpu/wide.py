"""Many rows in vector registers: a group is unpacked once for all rows, which lie side by side in panels.

Owns the layout of unpacked groups and of panels, and the tiles that read them; knows no packed form
(`weight_format.spread` is a format's own). They add up a quant block exactly in int32, then into float32
by the same operations in the same order as the narrow tiles: the same bits.

An *unpacked group* is, for every 32 columns, UNPACKED_BYTES: 8 lines of weights (a line holds 4 columns
of 16 features), then two lines of float32: for runs of 32 the scale and, if there is one, what the sum
of the activations is multiplied with; for runs of 16 the two scales. Weights are unsigned bytes, but
signed for AMX.

A row goes by in *parts* of so many blocks that a part of an unpacked group and of a panel fit the
first-level cache together. Its values and the fields that a format needs, part by part and _PART apart
from the next row's, are its place in a *panel*: that of _PANEL rows. One register addresses them all.
"""

from __future__ import annotations

from numba.extending import register_jitable

from kernels.cpu.layout import ACT_D, ACT_NSUM, ACT_NSUM16, ACT_S
from kernels.cpu.simd import (
    HAS_AMX,
    MAX_TILE,
    add_scaled,
    add_scaled_dots,
    add_tile,
    begin_short,
    dot4_eight,
    dot4_short,
    end_short,
    float_tile,
    i32,
    inline_part,
    int_tile,
    kernel_part,
    load1_i32,
    load_f,
    load_i,
    offset_tile,
    prefetch_near,
    store1_i32,
    store_i,
    store_tile,
    subtract_bytes,
)
from kernels.cpu.simd.dots import HAS_SIGNED_EIGHT
from kernels.cpu.simd.partial_tiles import load_tile, same_address
from kernels.cpu.weight_format import spread

UNPACKED_BYTES = 640  # per 32 columns
SCALE, LEAST = 512, 576  # where the lines of floats are

# Blocks of a part: rows of up to _WHOLE (of 576 or 640 columns, say) are not cut.
_WHOLE, _BLOCKS = 20, 16
# In a row's part: scales after its values, then scaled sums, or negative sums times the zero point.
_D = 32 * _WHOLE
_SUMS = _D + 4 * _WHOLE
_PART = (_SUMS + 8 * _WHOLE + 63) // 64 * 64
# Two tiles that take turns at each block fill 32 registers: two of their results a row, and one of dots.
_TWO_TILES = MAX_TILE > 4
_PANEL = 2 * MAX_TILE if _TWO_TILES else MAX_TILE
_PARTIAL = 64  # a row's results so far
_FETCHES = 3  # a block and tile


# ---- what formats and other tiles use ------------------------------------------------------------


@inline_part
def put_weights(out, line, v, zero):
    """Line `line` of a block: unsigned weights, of which `zero` stands for 0."""
    store_i(out + 64 * line, subtract_bytes(v, zero) if HAS_AMX else v)


@inline_part
def emit(f, y, stride, add):
    if add:
        add_tile(f, y, stride)
    else:
        store_tile(f, y, stride)


# ---- panels --------------------------------------------------------------------------------------


@register_jitable
def panel_scratch_bytes(rows, k):
    """Of each thread: a part of an unpacked group, panels of all rows."""
    return _WHOLE * UNPACKED_BYTES + (rows + _PANEL - 1) // _PANEL * _panel_bytes(k // 32)


@register_jitable
def _panel_bytes(nb):
    return _PANEL * (_PARTIAL + (nb + _blocks_of_part(nb) - 1) // _blocks_of_part(nb) * _PART)


@register_jitable
def _blocks_of_part(nb):
    return nb if nb <= _WHOLE else _BLOCKS


@inline_part
def _has_sums(fmt):
    """Whether what weights that stand for 0 add has to be taken back."""
    return fmt.zero != 0 and not (fmt.bits == 8 and HAS_SIGNED_EIGHT)


@inline_part
def _copy(src, to, num_bytes):
    whole = num_bytes // 64 * 64
    for i in range(0, whole, 64):
        store_i(to + i, load_i(src + i))
    for i in range(whole, num_bytes, 4):
        store1_i32(to + i, load1_i32(src + i))


@kernel_part
def make_panels(fmt, x, stride, k, rows, spare):
    """Once before a thread's first group. spare: panel_scratch_bytes(rows, k) of its own."""
    nb = k // 32
    blocks, at = _blocks_of_part(nb), spare + _WHOLE * UNPACKED_BYTES
    for r in range(rows):
        row, to = x + r * stride, at + r // _PANEL * _panel_bytes(nb) + _PANEL * _PARTIAL
        to += r % _PANEL * _PART
        for first in range(0, nb, blocks):
            n = min(blocks, nb - first)
            _copy(row + 32 * first, to, 32 * n)
            _copy(row + ACT_D * nb + 4 * first, to + _D, 4 * n)
            if fmt.has_least:
                _copy(row + ACT_S * nb + 4 * first, to + _SUMS, 4 * n)
            if _has_sums(fmt):
                sums, of_block = row + ACT_NSUM * nb, 1
                if fmt.run_len == 16:
                    sums, of_block = row + ACT_NSUM16 * nb, 2
                for i in range(of_block * n):
                    negative = load1_i32(sums + 4 * (of_block * first + i))
                    store1_i32(to + _SUMS + 4 * i, negative << i32(fmt.zero_shift))
            to += _PANEL * _PART


# ---- tiles ---------------------------------------------------------------------------------------


@inline_part
def _dots(fmt, acc, lines, first, end, values):
    """acc plus lines [first, end): unrolled, words_in_short at a time."""
    if fmt.bits == 8:
        for j in range(first, end):
            acc = dot4_eight(acc, load_i(lines + 64 * j), values + 4 * j, _PART)
        return acc
    for start in range(first, end, fmt.words_in_short):
        short = begin_short(acc)
        for j in range(start, min(start + fmt.words_in_short, end)):
            short = dot4_short(short, load_i(lines + 64 * j), values + 4 * j, _PART)
        acc = end_short(acc, short)
    return acc


@inline_part
def _start(fmt, f, sums):
    return offset_tile(f, sums, _PART, i32(0)) if _has_sums(fmt) else int_tile(f)


@inline_part
def _add_block(fmt, f, p, part, b):
    """f + block b of the rows' parts times its weights at p."""
    values, d, sums = part + 32 * b, part + _D + 4 * b, part + _SUMS + 4 * b
    if fmt.run_len == 32:
        acc = _dots(fmt, _start(fmt, f, sums), p, 0, 8, values)
        f = add_scaled_dots(f, acc, load_f(p + SCALE), d, _PART)
        if fmt.has_least:
            f = add_scaled(f, load_f(p + LEAST), sums, _PART)
        return f
    sums += 4 * b
    acc = _dots(fmt, _start(fmt, f, sums), p, 0, 4, values)
    f = add_scaled_dots(f, acc, load_f(p + SCALE), d, _PART)
    acc = _dots(fmt, _start(fmt, f, sums + 4), p, 4, 8, values)
    return add_scaled_dots(f, acc, load_f(p + SCALE + 64), d, _PART)


@inline_part
def _fetch(ahead, apart):
    """Fetch what is unpacked next, evenly: a burst of fetches would hold up the loads of a tile."""
    for _ in range(_FETCHES):
        prefetch_near(ahead)
        ahead += apart
    return ahead


@inline_part
def _tile(fmt, f, w, part, n, ahead, apart):
    """f + n unpacked blocks at w times the rows of a tile."""
    for b in range(n):
        ahead = _fetch(ahead, apart)
        f = _add_block(fmt, f, w + UNPACKED_BYTES * b, part, b)
    return f


@inline_part
def _two_tiles(fmt, f, g, w, part, n, ahead, apart):
    """As _tile, for the two tiles of a panel."""
    for b in range(n):
        p = w + UNPACKED_BYTES * b
        ahead = _fetch(ahead, apart)
        f = _add_block(fmt, f, p, part, b)
        g = _add_block(fmt, g, same_address(p), part + MAX_TILE * _PART, b)
    return f, g


@inline_part
def _begin_tile(partial, first):
    f = float_tile(MAX_TILE)
    return load_tile(MAX_TILE, partial) if first > 0 else f


@inline_part
def _end_tile(f, partial, is_last, y, stride, add):
    if is_last:
        emit(f, y, stride, add)
    else:
        store_tile(f, partial, _PARTIAL)


@kernel_part
def times_panels(fmt, w, next_w, spare, k, first_row, rows, y, y_stride, add):
    """The group at w, for as many rows from first_row on as fill tiles; how many that were.

    y is at first_row, which is the first of a panel. next_w: where the thread's next group is likely to be.
    """
    nb, done = k // 32, rows // MAX_TILE * MAX_TILE
    if done == 0:
        return done
    blocks, panel_bytes = _blocks_of_part(nb), _panel_bytes(nb)
    panels = spare + _WHOLE * UNPACKED_BYTES + first_row // _PANEL * panel_bytes
    for first in range(0, nb, blocks):
        n = min(blocks, nb - first)
        end = first + n
        spread(fmt, w + first * 32 // fmt.block_len * fmt.packed_bytes, spare, 32 * n)
        ahead = next_w if end == nb else w + end * 32 // fmt.block_len * fmt.packed_bytes
        part_bytes = 32 * n // fmt.block_len * fmt.packed_bytes
        apart = 1 + part_bytes // (done // MAX_TILE * n * _FETCHES)
        panel, to, rest = panels, y, done
        while rest > 0:
            part = panel + _PANEL * _PARTIAL + first // blocks * _PANEL * _PART
            f = _begin_tile(panel, first)
            if _TWO_TILES and rest > MAX_TILE:
                other, to_other = panel + MAX_TILE * _PARTIAL, to + MAX_TILE * y_stride
                g = _begin_tile(other, first)
                f, g = _two_tiles(fmt, f, g, spare, part, n, ahead, 2 * apart)
                _end_tile(g, other, end == nb, to_other, y_stride, add)
            else:
                f = _tile(fmt, f, spare, part, n, ahead, apart)
            _end_tile(f, panel, end == nb, to, y_stride, add)
            ahead += _PANEL // MAX_TILE * n * _FETCHES * apart
            panel += panel_bytes
            to += _PANEL * y_stride
            rest -= _PANEL
    return done
