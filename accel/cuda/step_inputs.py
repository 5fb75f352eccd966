"""What every step brings, in one piece: ids, positions, slots, rows that want logits, page table.

Owns its layout, on the host and on a die; knows nothing about who fills it. One copy a step carries it all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.cuda.plan import Area, At, aligned

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from accel.backend import Limits, StepBatch


class StepInputs:
    """The areas of one die's copy; int32 throughout."""

    def __init__(self, limits: Limits) -> None:
        rows, page_table = limits.max_rows, limits.num_slots * limits.max_pages_per_slot
        self._starts = (0, rows, 2 * rows, 3 * rows, 3 * rows + limits.max_logit_rows)
        self.num_values = self._starts[-1] + page_table
        self.area = Area("buffers", "step inputs", aligned(4 * self.num_values))
        places = [At(self.area, 4 * start) for start in self._starts]
        self.tokens, self.positions, self.slots, self.logit_rows, self.page_table = places

    def fill(self, target: npt.NDArray[np.int32], batch: StepBatch) -> None:
        """Write a batch in this layout. Shapes: target (num_values,) int32; what is unused stays."""
        columns = (batch.tokens, batch.positions, batch.slots, batch.logit_rows, batch.page_table)
        for start, column in zip(self._starts, columns, strict=True):
            target[start : start + column.size] = column.reshape(-1)
