"""A plan's rows as the arrays a backend takes. Owns those arrays; decides nothing.

The arrays are made once and refilled for each step. A slot's row of the page table is written from
the start for another list of pages, and gets a page more whenever its sequence does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel.backend import StepBatch

if TYPE_CHECKING:
    from inference.engine.config import EngineConfig
    from inference.engine.scheduler import StepPlan
    from inference.engine.sequence import Sequence


class BatchArrays:
    """Rows of a step: one of each decoding sequence, then the prompt's chunk."""

    def __init__(self, config: EngineConfig) -> None:
        self._tokens = np.zeros(config.max_rows, np.int32)
        self._positions = np.zeros(config.max_rows, np.int32)
        self._slots = np.zeros(config.max_rows, np.int32)
        self._logit_rows = np.zeros(config.max_logit_rows, np.int32)
        self._page_table = np.zeros((config.num_slots, config.max_pages_per_slot), np.int32)
        # For single numbers, which a view takes faster than an array.
        self._views = tuple(
            array.data for array in (self._tokens, self._positions, self._slots, self._logit_rows)
        )
        self._decodes = [self._batch(n, n) for n in range(config.num_slots + 1)]
        self._page_lists = [0] * config.num_slots  # which pages are in a slot's row of the table
        self._num_pages = [0] * config.num_slots  # how many of them are

    def fill(self, plan: StepPlan) -> StepBatch:
        """The step's batch: views of these arrays, valid until the next fill.

        Steps of as many decoding sequences and no prompt have the same batch.
        """
        tokens, positions, slots, logit_rows = self._views
        for row, sequence in enumerate(plan.decodes):
            tokens[row], positions[row] = sequence.last_id, sequence.num_ids - 1
            slots[row], logit_rows[row] = self._slot(sequence), row
        num_decodes = len(plan.decodes)
        if plan.prompt is None:
            return self._decodes[num_decodes]
        num_rows, num_logits = num_decodes + plan.end - plan.start, num_decodes
        chunk = slice(num_decodes, num_rows)
        self._tokens[chunk] = plan.prompt.ids[plan.start : plan.end]
        self._positions[chunk] = np.arange(plan.start, plan.end)
        self._slots[chunk] = self._slot(plan.prompt)
        if plan.ends_prompt:
            logit_rows[num_logits] = num_rows - 1
            num_logits += 1
        return self._batch(num_rows, num_logits)

    def _batch(self, num_rows: int, num_logits: int) -> StepBatch:
        return StepBatch(
            tokens=self._tokens[:num_rows],
            positions=self._positions[:num_rows],
            slots=self._slots[:num_rows],
            logit_rows=self._logit_rows[:num_logits],
            page_table=self._page_table,
        )

    def _slot(self, sequence: Sequence) -> int:
        slot, num_pages = sequence.slot, len(sequence.pages)
        if self._page_lists[slot] != sequence.page_list:
            self._page_lists[slot], self._num_pages[slot] = sequence.page_list, 0
        if self._num_pages[slot] < num_pages:
            new = slice(self._num_pages[slot], num_pages)
            self._page_table[slot, new] = sequence.pages[new]
            self._num_pages[slot] = num_pages
        return slot
