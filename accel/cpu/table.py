"""The table of op records that the machine walks.

Owns the encoding of machine ops as int64 rows; decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel.cpu.compiling import kernel_address
from accel.cpu.meetings import meeting_bits
from accel.cpu.records import Access
from kernels.cpu.layout import OP, OP_COLUMNS, S_LOGITS, S_ROWS
from kernels.specs.program import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from accel.cpu.placement import Placement
    from accel.cpu.records import Area, Column, MachineOp


def claim_counters(num_ops: int) -> npt.NDArray[np.int32]:
    """What threads have claimed of each op. Side by side: they are cleared before each step."""
    return np.zeros(num_ops, np.int32)


def build_table(
    ops: Sequence[MachineOp],
    placement: Placement,
    addresses: Mapping[Area, int],
    counters: npt.NDArray[np.int32],
) -> npt.NDArray[np.int64]:
    """One record per op. Shapes: (len(ops), OP_COLUMNS) int64."""
    table = np.zeros((len(ops), OP_COLUMNS), np.int64)
    for i, (op, bits) in enumerate(zip(ops, meeting_bits(ops, placement), strict=True)):
        record = table[i]
        record[OP["KERNEL"]] = kernel_address(op.kernel)
        record[OP["ROWS"]] = S_LOGITS if op.rows is Rows.LOGITS else S_ROWS
        record[OP["MEET"]] = bits
        record[OP["CLAIMED"]] = counters.ctypes.data + counters.strides[0] * i
        for name, value in op.columns.items():
            record[OP[name]] = _encode(value, addresses)
    return table


def _encode(value: Column, addresses: Mapping[Area, int]) -> int:
    if isinstance(value, Access):
        return addresses[value.area] + value.first
    if isinstance(value, float):
        return int(np.float64(value).view(np.int64))
    return value
