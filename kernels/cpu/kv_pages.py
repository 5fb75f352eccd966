"""Pages of keys and values: where a head's part lies, how positions enter it and how it is read.

Owns the page layout all KV types share; knows neither attention nor a type's bytes. A page holds PAGE
positions of all KV heads of one layer. The part of one head is its keys, transposed (neighbouring
positions fill a vector, so scores need no horizontal sums), then its values. Both are read as
float32, whatever they are kept in, so attention is the same for all types.
"""

from kernels.cpu import kv_f16, kv_f32, kv_q4_0, kv_q8_0
from kernels.cpu.kv_types import F16, F32, KV_BLOCK, Q8_0, part_bytes
from kernels.cpu.layout import (
    HEAD_DIM,
    KV,
    KV_HEADS,
    KV_TYPE,
    S_MAX_PAGES,
    S_PAGES,
    S_SLOTS,
)
from kernels.cpu.simd import (
    f32,
    i64,
    inline_part,
    kernel_part,
    load1_i32,
    load_f,
    splat,
    vmax,
    vmin,
)
from kernels.cpu.simd.halves import IN_HARDWARE

F16_MAX = 65504.0


@inline_part
def head_page(op, step, row, page_index, kv_head):
    """Address of one head's part of the page_index-th page of the row's sequence: its keys."""
    slot = i64(load1_i32(step[S_SLOTS] + 4 * row))
    page = i64(load1_i32(step[S_PAGES] + 4 * (slot * step[S_MAX_PAGES] + page_index)))
    size = 2 * part_bytes(op[KV_TYPE], op[HEAD_DIM])
    return op[KV] + (page * op[KV_HEADS] + kv_head) * size


@inline_part
def values_of(op, keys):
    return keys + part_bytes(op[KV_TYPE], op[HEAD_DIM])


@inline_part
def can_read_halves(op):
    """Whether loads widen what is in a page, as fast as any other way to read it once."""
    return IN_HARDWARE and op[KV_TYPE] == F16


@inline_part
def readable_keys(op, keys, halves, spare):
    """Where keys of a page lie as float16 (halves) or as float32: in the page or in spare."""
    if halves or op[KV_TYPE] == F32:
        return keys
    widen_keys(op, keys, spare)
    return spare


@inline_part
def readable_values(op, values, halves, spare):
    if halves or op[KV_TYPE] == F32:
        return values
    widen_values(op, values, spare)
    return spare


@kernel_part
def widen_keys(op, keys, dst):
    """Keys of a page -> float32 (dim, PAGE) at dst."""
    if op[KV_TYPE] == F16:
        kv_f16.widen_keys(keys, op[HEAD_DIM], dst)
    elif op[KV_TYPE] == F32:
        kv_f32.widen(keys, op[HEAD_DIM], dst)
    elif op[KV_TYPE] == Q8_0:
        kv_q8_0.widen_keys(keys, op[HEAD_DIM], dst)
    else:
        kv_q4_0.widen_keys(keys, op[HEAD_DIM], dst)


@kernel_part
def widen_values(op, values, dst):
    """Values of a page -> float32 (PAGE, dim) at dst."""
    if op[KV_TYPE] == F16:
        kv_f16.widen_values(values, op[HEAD_DIM], dst)
    elif op[KV_TYPE] == F32:
        kv_f32.widen(values, op[HEAD_DIM], dst)
    elif op[KV_TYPE] == Q8_0:
        kv_q8_0.widen_values(values, op[HEAD_DIM], dst)
    else:
        kv_q4_0.widen_values(values, op[HEAD_DIM], dst)


@inline_part
def _read(address):
    """16 floats within f16's range: an infinity in a page would turn a later reader's zeros into NaN."""
    return vmax(vmin(load_f(address), splat(f32(F16_MAX))), splat(f32(-F16_MAX)))


@kernel_part
def _append_quantised(op, keys, values, offset, key, value):
    dim = op[HEAD_DIM]
    for b in range(dim // KV_BLOCK):
        at = 4 * KV_BLOCK * b
        k0, k1, v0, v1 = (
            _read(key + at),
            _read(key + at + 64),
            _read(value + at),
            _read(value + at + 64),
        )
        if op[KV_TYPE] == Q8_0:
            kv_q8_0.append_key(keys, offset, k0, k1, b, dim)
            kv_q8_0.append_value(values, offset, v0, v1, b, dim)
        else:
            kv_q4_0.append_key(keys, offset, k0, k1, b, dim)
            kv_q4_0.append_value(values, offset, v0, v1, b, dim)


@kernel_part
def append(op, keys, offset, key, value):
    """Put one position's key and value (dim,) f32 at `offset` of a head's page."""
    values, dim = values_of(op, keys), op[HEAD_DIM]
    if op[KV_TYPE] == F16:
        for d in range(0, dim, 16):
            kv_f16.append_key(keys, offset, _read(key + 4 * d), d)
            kv_f16.append_value(values, offset, _read(value + 4 * d), d, dim)
    elif op[KV_TYPE] == F32:
        for d in range(0, dim, 16):
            kv_f32.append_key(keys, offset, _read(key + 4 * d), d)
            kv_f32.append_value(values, offset, _read(value + 4 * d), d, dim)
    else:
        _append_quantised(op, keys, values, offset, key, value)
