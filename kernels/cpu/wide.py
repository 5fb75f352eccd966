"""Many rows: what a matmul reads is laid out once for tiles that are larger than the narrow ones.

Owns two layouts and the tiles that read them; knows no packed form (`weight_format.spread` is a
format's own). Tiles are of vector registers, or of AMX where the host has it. Either adds up a quant
block exactly in int32, then into float32 by the same operations in the same order as the narrow tiles:
the same bits.

An *unpacked group* is, for every 32 columns, UNPACKED_BYTES: 8 lines of weights (a line holds 4 columns
of 16 features), then two lines of float32: for runs of 32 the scale and, if there is one, what the sum
of the activations is multiplied with; for runs of 16 the two scales. Weights are unsigned bytes, but
signed for AMX.

A *panel* is the activations of one tile's rows side by side, so that one register addresses all:
for every 32 columns and every 4-byte field of those (see the fields below) one value of each row.
"""

from __future__ import annotations

from numba.extending import overload, register_jitable

from kernels.cpu.layout import ACT_D, ACT_NSUM, ACT_NSUM16, ACT_S
from kernels.cpu.simd import (
    HAS_AMX,
    OPTIONS,
    WIDE_TILE,
    add_scaled,
    add_scaled_dots,
    add_tile,
    begin_short,
    dot4_eight,
    dot4_short,
    end_short,
    float_tile,
    i32,
    i64,
    inline_part,
    int_tile,
    kernel_part,
    load1_i32,
    load_f,
    load_i,
    offset_tile,
    start_eight,
    store1_i32,
    store_i,
    store_tile,
    subtract_bytes,
)
from kernels.cpu.simd.amx import (
    CONFIG_BYTES,
    PRODUCT_BYTES,
    add_scaled_products,
    begin_even,
    begin_odd,
    configure_tiles,
    end_even,
    end_odd,
    release_tiles,
)

UNPACKED_BYTES = 640  # per 32 columns
SCALE, LEAST = 512, 576  # where the lines of floats are
RING_BYTES = 2 * PRODUCT_BYTES  # of products on their way from AMX to registers
TILE = 16 if HAS_AMX else WIDE_TILE
# On AVX2 8 rows take 0.6 to 0.9 times as long in narrow tiles; from 24 on wide ones are no slower.
_MANY_ROWS = 24
# A panel's fields. AMX loads activations from where they are, and its weights are signed.
_D, _S, _NSUM, _NSUM16, _VALUES = 0, 1, 2, 3, 5
_FIELDS = 2 if HAS_AMX else 13
_ROW = 4  # from a row to the next in a panel


@register_jitable
def wide_scratch_bytes(rows, k):
    """Of each thread: one unpacked group, products, a configuration of AMX, panels of all rows."""
    nb = k // 32
    spread_bytes = nb * UNPACKED_BYTES + RING_BYTES + CONFIG_BYTES
    panel_bytes = (rows + TILE - 1) // TILE * nb * _FIELDS * TILE * _ROW
    return spread_bytes + (panel_bytes + 63) // 64 * 64


@inline_part
def _panel_bytes(k):
    return k // 32 * _FIELDS * TILE * _ROW


@inline_part
def _panels(spare, k):
    return spare + k // 32 * UNPACKED_BYTES + RING_BYTES + CONFIG_BYTES


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


@kernel_part
def _make_panels(x, stride, k, rows, panels):
    nb = k // 32
    for r in range(rows):
        row, at = x + r * stride, panels + r // TILE * _panel_bytes(k) + _ROW * (r % TILE)
        for b in range(nb):
            out = at + b * _FIELDS * TILE * _ROW
            store1_i32(out + _D * TILE * _ROW, load1_i32(row + ACT_D * nb + 4 * b))
            store1_i32(out + _S * TILE * _ROW, load1_i32(row + ACT_S * nb + 4 * b))
            if not HAS_AMX:
                nsum16 = row + ACT_NSUM16 * nb + 8 * b
                store1_i32(out + _NSUM * TILE * _ROW, load1_i32(row + ACT_NSUM * nb + 4 * b))
                store1_i32(out + _NSUM16 * TILE * _ROW, load1_i32(nsum16))
                store1_i32(out + (_NSUM16 + 1) * TILE * _ROW, load1_i32(nsum16 + 4))
                for j in range(8):
                    word = load1_i32(row + 32 * b + 4 * j)
                    store1_i32(out + (_VALUES + j) * TILE * _ROW, word)


# ---- vector registers ----------------------------------------------------------------------------


@inline_part
def _field(block, field):
    return block + field * TILE * _ROW


@inline_part
def _dots(fmt, acc, lines, first, end, block):
    """acc plus lines [first, end): unrolled, words_in_short at a time."""
    if fmt.bits == 8:
        for j in range(first, end):
            acc = dot4_eight(acc, load_i(lines + 64 * j), _field(block, _VALUES + j), _ROW)
        return acc
    for start in range(first, end, fmt.words_in_short):
        short = begin_short(acc)
        for j in range(start, min(start + fmt.words_in_short, end)):
            short = dot4_short(short, load_i(lines + 64 * j), _field(block, _VALUES + j), _ROW)
        acc = end_short(acc, short)
    return acc


@inline_part
def _start(fmt, f, sums):
    """Minus the zero point times the sum of the activations."""
    if fmt.bits == 8:
        return start_eight(f, sums, _ROW)
    return offset_tile(f, sums, _ROW, i32(fmt.zero_shift)) if fmt.zero else int_tile(f)


@inline_part
def _tile(fmt, f, w, panel, k):
    """f + the unpacked group at w times the rows of a panel, in vector registers."""
    for b in range(k // 32):
        p, x = w + UNPACKED_BYTES * b, panel + b * _FIELDS * TILE * _ROW
        d = _field(x, _D)
        if fmt.run_len == 32:
            acc = _dots(fmt, _start(fmt, f, _field(x, _NSUM)), p, 0, 8, x)
            f = add_scaled_dots(f, acc, load_f(p + SCALE), d, _ROW)
            if fmt.has_least:
                f = add_scaled(f, load_f(p + LEAST), _field(x, _S), _ROW)
        else:
            acc = _dots(fmt, _start(fmt, f, _field(x, _NSUM16)), p, 0, 4, x)
            f = add_scaled_dots(f, acc, load_f(p + SCALE), d, _ROW)
            acc = _dots(fmt, _start(fmt, f, _field(x, _NSUM16 + 1)), p, 4, 8, x)
            f = add_scaled_dots(f, acc, load_f(p + SCALE + 64), d, _ROW)
    return f


# ---- AMX -----------------------------------------------------------------------------------------
#
# Product h is of block h, or for runs of 16 of run h. Even and odd ones have tile registers and a place
# in the ring of their own.


@inline_part
def _weights_of(fmt, w, h, odd):
    if fmt.run_len == 32:
        return w + UNPACKED_BYTES * h
    return w + UNPACKED_BYTES * (h // 2) + 256 * odd


@inline_part
def _begin_even(fmt, w, x, stride, h):
    begin_even(x + fmt.run_len * h, stride, _weights_of(fmt, w, h, 0))


@inline_part
def _begin_odd(fmt, w, x, stride, h):
    begin_odd(x + fmt.run_len * h, stride, _weights_of(fmt, w, h, 1))


@inline_part
def _add(fmt, f, products, w, panel, h, odd):
    if fmt.run_len == 32:
        p, x = w + UNPACKED_BYTES * h, panel + h * _FIELDS * TILE * _ROW
        f = add_scaled_products(f, products, load_f(p + SCALE), _field(x, _D))
        if fmt.has_least:
            f = add_scaled(f, load_f(p + LEAST), _field(x, _S), _ROW)
        return f
    p, x = w + UNPACKED_BYTES * (h // 2), panel + h // 2 * _FIELDS * TILE * _ROW
    return add_scaled_products(f, products, load_f(p + SCALE + 64 * odd), _field(x, _D))


@inline_part
def _amx_tile(fmt, f, w, x, stride, panel, k, even):
    """As _tile. While product h is begun, h - 2 goes to memory and h - 3 is scaled and added."""
    odd, num = even + PRODUCT_BYTES, k // fmt.run_len  # an even number
    _begin_even(fmt, w, x, stride, 0)
    _begin_odd(fmt, w, x, stride, 1)
    end_even(even)
    _begin_even(fmt, w, x, stride, min(2, num - 2))
    for h in range(3, num, 2):
        end_odd(odd)
        _begin_odd(fmt, w, x, stride, h)
        f = _add(fmt, f, even, w, panel, h - 3, 0)
        end_even(even)
        _begin_even(fmt, w, x, stride, min(h + 1, num - 2))  # the last one twice, to no end
        f = _add(fmt, f, odd, w, panel, h - 2, 1)
    end_odd(odd)
    f = _add(fmt, f, even, w, panel, num - 2, 0)
    return _add(fmt, f, odd, w, panel, num - 1, 1)


# ---- all rows ------------------------------------------------------------------------------------


@inline_part
def is_wide(fmt, k, rows):
    """Whether a step of so many rows is worth it: for few, narrow tiles are faster, which write nothing.

    AMX takes 32-column blocks in pairs.
    """
    if HAS_AMX:
        return fmt.has_spread and rows >= TILE and (fmt.run_len == 16 or k % 64 == 0)
    return fmt.has_spread and rows >= _MANY_ROWS


@inline_part
def begin_wide(fmt, x, stride, k, rows, spare):
    """Once before a thread's first group. spare: wide_scratch_bytes(rows, k) of its own."""
    _make_panels(x, stride, k, rows, _panels(spare, k))
    if HAS_AMX:
        configure_tiles(spare + k // 32 * UNPACKED_BYTES + RING_BYTES, TILE, fmt.run_len)


@inline_part
def end_wide():
    if HAS_AMX:
        release_tiles()


def wide_times_rows(fmt, spare, x, x_stride, k, first, rows, y, y_stride, add):
    """The group unpacked into spare, for as many rows from the first-th on as fill tiles; how many that were.

    x and y are at row `first`, a multiple of TILE.
    """


@overload(wide_times_rows, jit_options=OPTIONS)
def _choose(fmt, spare, x, x_stride, k, first, rows, y, y_stride, add):
    """Only formats that can be unpacked have wide tiles to compile."""
    if not fmt.has_spread:
        return lambda fmt, spare, x, x_stride, k, first, rows, y, y_stride, add: i64(0)
    return lambda fmt, spare, x, x_stride, k, first, rows, y, y_stride, add: _times_rows(
        fmt, spare, x, x_stride, k, first, rows, y, y_stride, add
    )


@kernel_part
def _times_rows(fmt, spare, x, x_stride, k, first, rows, y, y_stride, add):
    r, panel = 0, _panels(spare, k) + first // TILE * _panel_bytes(k)
    ring = spare + k // 32 * UNPACKED_BYTES
    while rows - r >= TILE:
        xr, yr = x + r * x_stride, y + r * y_stride
        if HAS_AMX:
            f = _amx_tile(fmt, float_tile(TILE), spare, xr, x_stride, panel, k, ring)
        else:
            f = _tile(fmt, float_tile(TILE), spare, panel, k)
        emit(f, yr, y_stride, add)
        panel += _panel_bytes(k)
        r += TILE
    return r
