"""Rows of a model file -> groups of 16 interleaved rows, bit for bit the file's values.

Owns the loop over groups and blocks; knows no format: `pack_block` is a format's own. Words are moved
whole, so the order of columns inside a block stays the file's, and kernels index activations to suit.
"""

from __future__ import annotations

from kernels.cpu.simd import driver
from kernels.cpu.weight_format import LANES, pack_block

# rows: address of each row; dst: address of the first group; blocks in a row; groups to make
SIGNATURE = "void(int64[::1], int64, int64, int64)"


@driver
def repack(rows, dst, blocks, groups, fmt):
    for g in range(groups):
        for b in range(blocks):
            out = dst + (g * blocks + b) * fmt.packed_bytes
            for lane in range(LANES):
                pack_block(fmt, rows[g * LANES + lane] + b * fmt.file_bytes, out, lane)
