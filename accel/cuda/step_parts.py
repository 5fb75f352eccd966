"""A wide step in parts, so that dies work on different rows of it at the same time.

Owns where a step is cut; knows no die. A row's result does not depend on what else is in its part, and
later rows of a sequence come in later parts, so cutting changes no bit. While the second die runs the
first rows the first die runs the next ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.backend import StepBatch

PART_ROWS = 32  # two tiles of the matmuls: narrower parts would read the weights more often
_LEAST_ROWS = 64  # of a step worth cutting


def max_parts(max_rows: int, num_stages: int) -> int:
    """The most parts any step is cut into."""
    return 1 if num_stages == 1 or max_rows < _LEAST_ROWS else -(-max_rows // PART_ROWS)


def step_parts(batch: StepBatch, num_stages: int) -> Iterator[StepBatch]:
    """The step's rows in order; logit rows are counted within their part."""
    num_rows = len(batch.tokens)
    if max_parts(num_rows, num_stages) == 1:
        yield batch
        return
    for start in range(0, num_rows, PART_ROWS):
        rows = slice(start, start + PART_ROWS)
        wanted = batch.logit_rows
        inside = (wanted >= start) & (wanted < start + PART_ROWS)
        yield replace(
            batch,
            tokens=batch.tokens[rows],
            positions=batch.positions[rows],
            slots=batch.slots[rows],
            logit_rows=wanted[inside] - start,
        )
