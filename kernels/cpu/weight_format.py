"""Weight formats as types, so that one driver compiles into one kernel per format.

Owns the marker types and what a format must bring; knows no format. A driver (`matmul`, `embed`,
`repack`) takes a marker value and calls `tile`, `unpack_block` or `pack_block` with it. Passing the functions
themselves works too, but numba then refuses to cache the kernel: a function object is a "dynamic
global".

A packed weight is a sequence of *groups* of 16 rows, so that a thread streams one group from end to
end. A group is a sequence of packed blocks, each `block_len` columns of the 16 rows: first the scales
(16 lanes side by side), then the values as 64-byte lines whose 32-bit lane r belongs to row r.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba import types
from numba.extending import intrinsic, models, overload, overload_attribute, register_model

from kernels.cpu.simd import OPTIONS, words_in_short

LANES = 16


@dataclass(frozen=True)
class Format:
    """block_len: columns in a block; file_bytes: of one row's block as read; packed_bytes: of 16 rows'.

    activations: what the matmul multiplies with, "q8" (int8 per 32 values, layout.ACT_BLOCK) or "f32".
    bits: of an unpacked weight, which is unsigned. run_len: columns that share a scale. zero: which of its
    values stands for 0, a power of two or 0. has_least: whether scaled sums of activations are added (a
    value's minimum).
    """

    name: str
    block_len: int
    file_bytes: int
    packed_bytes: int
    bits: int = 8
    activations: str = "q8"
    run_len: int = 32
    zero: int = 0
    has_least: bool = False

    @property
    def zero_shift(self):
        """log2(zero)."""
        return self.zero.bit_length() - 1

    @property
    def words_in_short(self):
        """How many 4-byte words of weights go into a short sum."""
        return words_in_short(self.bits)

    def group_bytes(self, k):
        return k // self.block_len * self.packed_bytes


class FormatMarker(types.Type):
    def __init__(self, fmt, has_spread):
        self.fmt, self.has_spread = fmt, has_spread
        super().__init__(name=f"weights_{fmt.name}")


register_model(FormatMarker)(models.OpaqueModel)


def tile(fmt, f, w, x, stride, k):
    """f (a zeroed tile) + one group at w times the activation rows at x, stride, ...: 16 columns a row."""


def spread(fmt, w, out, k):
    """One group of k columns at w -> unpacked at out, as `kernels.cpu.wide` reads it."""


def pack_block(fmt, src, dst, lane):
    """One file block of one row at src -> its lane of the packed block at dst."""


def unpack_block(fmt, src, lane, dst, scale):
    """Lane `lane` of the packed block at src -> scale * value, float32 at dst."""


def marker(fmt, tile_function, pack_function, unpack_function, spread_function=None):
    """A marker value for compiled code, for which the functions above become the given ones.

    Without spread_function prompts take the narrow tiles too.
    """
    kind = FormatMarker(fmt, spread_function is not None)

    @overload(tile, jit_options=OPTIONS)
    def choose_tile(fmt, f, w, x, stride, k):
        if fmt == kind:
            return lambda fmt, f, w, x, stride, k: tile_function(f, w, x, stride, k)
        return None

    @overload(spread, jit_options=OPTIONS)
    def choose_spread(fmt, w, out, k):
        if fmt != kind:
            return None
        if spread_function is None:
            return lambda fmt, w, out, k: None
        return lambda fmt, w, out, k: spread_function(w, out, k)

    @overload(pack_block, jit_options=OPTIONS)
    def choose_pack(fmt, src, dst, lane):
        if fmt == kind:
            return lambda fmt, src, dst, lane: pack_function(src, dst, lane)
        return None

    @overload(unpack_block, jit_options=OPTIONS)
    def choose_unpack(fmt, src, lane, dst, scale):
        if fmt == kind:
            return lambda fmt, src, lane, dst, scale: unpack_function(src, lane, dst, scale)
        return None

    return intrinsic(lambda tyctx: (kind(), lambda ctx, b, sig, args: ctx.get_dummy_value()))


def _constant(name, value_of):
    @overload_attribute(FormatMarker, name)
    def get(fmt):
        value = value_of(fmt)
        return lambda fmt: value


def _size(name):
    _constant(name, lambda kind: getattr(kind.fmt, name))


_constant("has_spread", lambda kind: kind.has_spread)
for _name in (
    "block_len",
    "file_bytes",
    "packed_bytes",
    "run_len",
    "zero",
    "zero_shift",
    "has_least",
    "bits",
    "words_in_short",
):
    _size(_name)
