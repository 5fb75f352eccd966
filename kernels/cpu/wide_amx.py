"""Many rows with AMX: an unpacked group times tiles of 16 rows.

Owns the panels and the schedule of products; the layout of unpacked groups is kernels.cpu.wide's. A quant
block is added up exactly in int32, then into float32 by the same operations in the same order as in narrow
tiles: the same bits. Values are loaded from where they are; a *panel* holds, for every 32 columns, the
scale and the scaled sum of each of a tile's rows, side by side.
"""

from __future__ import annotations

from numba.extending import register_jitable

from kernels.cpu.layout import ACT_D, ACT_S
from kernels.cpu.simd import (
    add_scaled,
    float_tile,
    inline_part,
    kernel_part,
    load1_i32,
    load_f,
    store1_i32,
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
)
from kernels.cpu.weight_format import spread
from kernels.cpu.wide import LEAST, SCALE, UNPACKED_BYTES, emit

TILE = 16
_RING_BYTES = 2 * PRODUCT_BYTES  # of products on their way from AMX to registers
_D, _S, _FIELDS = 0, 1, 2  # of a panel
_ROW = 4  # from a row to the next in a field


@register_jitable
def amx_scratch_bytes(rows, k):
    """Of each thread: one unpacked group, products, a configuration of AMX, panels of all rows."""
    nb = k // 32
    panel_bytes = (rows + TILE - 1) // TILE * nb * _FIELDS * TILE * _ROW
    return nb * UNPACKED_BYTES + _RING_BYTES + CONFIG_BYTES + (panel_bytes + 63) // 64 * 64


@inline_part
def _panel_bytes(k):
    return k // 32 * _FIELDS * TILE * _ROW


@inline_part
def _panels(spare, k):
    return spare + k // 32 * UNPACKED_BYTES + _RING_BYTES + CONFIG_BYTES


@inline_part
def _field(block, field):
    return block + field * TILE * _ROW


@kernel_part
def _make_panels(x, stride, k, rows, panels):
    nb = k // 32
    for r in range(rows):
        row, at = x + r * stride, panels + r // TILE * _panel_bytes(k) + _ROW * (r % TILE)
        for b in range(nb):
            out = at + b * _FIELDS * TILE * _ROW
            store1_i32(_field(out, _D), load1_i32(row + ACT_D * nb + 4 * b))
            store1_i32(_field(out, _S), load1_i32(row + ACT_S * nb + 4 * b))


@inline_part
def begin_amx(fmt, x, stride, k, rows, spare):
    """Once before a thread's first group. spare: amx_scratch_bytes(rows, k) of its own."""
    _make_panels(x, stride, k, rows, _panels(spare, k))
    configure_tiles(spare + k // 32 * UNPACKED_BYTES + _RING_BYTES, TILE, fmt.run_len)


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
    """f + the unpacked group at w times a tile's rows.

    While product h is begun, h - 2 goes to memory and h - 3 is scaled and added.
    """
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


@kernel_part
def times_amx_tiles(fmt, w, spare, x, x_stride, k, first_row, rows, y, y_stride, add):
    """The group at w, for as many rows from first_row on as fill tiles; how many that were.

    x and y are at first_row, a multiple of TILE.
    """
    spread(fmt, w, spare, k)
    r, panel = 0, _panels(spare, k) + first_row // TILE * _panel_bytes(k)
    ring = spare + k // 32 * UNPACKED_BYTES
    while rows - r >= TILE:
        xr, yr = x + r * x_stride, y + r * y_stride
        f = _amx_tile(fmt, float_tile(TILE), spare, xr, x_stride, panel, k, ring)
        emit(f, yr, y_stride, add)
        panel += _panel_bytes(k)
        r += TILE
    return r
