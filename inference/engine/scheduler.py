"""Who may run: the queue, the slots, the pages, and the rows of the next step.

A sequence gets a slot together with every page it may ever need, or waits: nothing is discovered by
running out. Strictly first come, first served, so that a large request is never starved by small
ones. Knows no thread, no stream and no array; the worker's lock guards it.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.engine.errors import QueueFull
from inference.engine.page_pool import PagePool
from inference.engine.sequence import State

if TYPE_CHECKING:
    from inference.engine.config import EngineConfig
    from inference.engine.sequence import Sequence


@dataclass(frozen=True, eq=False)
class StepPlan:
    """One step: a row of each decoding sequence, then rows [start, end) of one prompt."""

    decodes: tuple[Sequence, ...]
    prompt: Sequence | None = None
    start: int = 0
    end: int = 0

    @property
    def ends_prompt(self) -> bool:
        return self.prompt is not None and self.end == self.prompt.num_prompt

    @property
    def wanting_logits(self) -> tuple[Sequence, ...]:
        """In the order of their rows."""
        if self.prompt is not None and self.ends_prompt:
            return (*self.decodes, self.prompt)
        return self.decodes


class Scheduler:
    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._queue: deque[Sequence] = deque()
        self._prompts: deque[Sequence] = deque()  # in PREFILL, in the order of their slots' taking
        self._slots: list[Sequence | None] = [None] * config.num_slots
        self._free_slots = list(range(config.num_slots))  # a heap: the lowest first
        self.pages = PagePool(config.num_pages)

    @property
    def num_queued(self) -> int:
        return len(self._queue)

    @property
    def num_slots_used(self) -> int:
        return self._config.num_slots - len(self._free_slots)

    @property
    def is_idle(self) -> bool:
        """Nothing in a slot, and so nothing in the queue: an empty replica fits any accepted request."""
        return self.num_slots_used == 0

    def live(self) -> list[Sequence]:
        """Every sequence that is not finished."""
        return [s for s in self._slots if s is not None] + list(self._queue)

    def add(self, sequence: Sequence) -> None:
        """Give a slot or a place in the queue.

        Raises: QueueFull.
        """
        if not self._queue and self._fits(sequence):
            self._admit(sequence)
        elif len(self._queue) < self._config.queue_depth:
            self._queue.append(sequence)
        else:
            raise QueueFull(self._config.queue_depth)

    def remove(self, sequence: Sequence) -> None:
        """The sequence is finished: free what it holds, and let the queue move up."""
        if sequence.state is State.WAITING:
            self._queue.remove(sequence)
        else:
            if sequence.state is State.PREFILL:
                self._prompts.remove(sequence)
            self._slots[sequence.slot] = None
            heapq.heappush(self._free_slots, sequence.slot)
            self.pages.give_back(sequence.pages)
        sequence.leave()
        while self._queue and self._fits(self._queue[0]):
            self._admit(self._queue.popleft())

    def expired(self, now_s: float) -> list[Sequence]:
        """Who has waited longer than allowed. All wait equally long, so the oldest are first."""
        latest = now_s - self._config.queue_wait_s
        too_long = []
        for sequence in self._queue:
            if sequence.queued_at_s > latest:
                break
            too_long.append(sequence)
        return too_long

    def plan(self) -> StepPlan | None:
        """The next step; None when there is nothing to do."""
        if self.is_idle:
            return None
        decodes = tuple(s for s in self._slots if s is not None and s.state is State.DECODE)
        if not self._prompts:
            return StepPlan(decodes)
        prompt = self._prompts[0]
        end = min(prompt.num_computed + self._config.chunk_len, prompt.num_prompt)
        return StepPlan(decodes, prompt, prompt.num_computed, end)

    def prefilled(self, sequence: Sequence, num_computed: int) -> None:
        """A chunk was computed; after the last one the next prompt has its turn."""
        sequence.advance_prefill(num_computed)
        if sequence.state is State.DECODE:
            self._prompts.remove(sequence)

    def _fits(self, sequence: Sequence) -> bool:
        return bool(self._free_slots) and sequence.num_pages_wanted <= self.pages.num_free

    def _admit(self, sequence: Sequence) -> None:
        slot = heapq.heappop(self._free_slots)
        sequence.enter(slot, self.pages.take(sequence.num_pages_wanted))
        self._slots[slot] = sequence
        self._prompts.append(sequence)
