"""What a worker has done and holds, counted. Knows no sequence and no thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.engine.errors import QueueTimeout
from inference.engine.params import FinishReason

if TYPE_CHECKING:
    from inference.engine.errors import EngineError
    from inference.engine.params import Finish
    from inference.engine.pressure import Pressure


@dataclass
class WorkerCounts:
    """Totals since the start. Accepted sequences are live or in exactly one of the four endings."""

    num_accepted: int = 0
    num_refused: int = 0  # the queue was full, under memory pressure or not
    num_completed: int = 0  # an end id or max_tokens
    num_aborted: int = 0
    num_timed_out: int = 0  # in the queue
    num_failed: int = 0  # lost with the replica, or by unusable logits
    num_steps: int = 0
    num_preempted: int = 0  # times a running sequence had to give its pages to an older one
    num_parked: int = 0  # times one that was not read had to give its slot and pages to another
    num_prompt_tokens: int = 0  # computed, also again after a preemption: the cache's misses
    num_cached_tokens: int = 0  # of prompts, not computed: the cache's hits
    num_prefix_hits: int = 0  # prompts of which some tokens were found
    num_prefix_misses: int = 0  # prompts looked for in vain
    num_output_tokens: int = 0  # sampled
    num_surplus_tokens: int = 0  # of those, after a stop string, or unread when they were given up
    step_s: float = 0.0  # inside the executor

    def add_lookup(self, *, is_hit: bool) -> None:
        """A prompt was computed, some of it by others before, or all of it now."""
        if is_hit:
            self.num_prefix_hits += 1
        else:
            self.num_prefix_misses += 1

    def add_ending(self, finish: Finish, error: EngineError | None) -> None:
        if isinstance(error, QueueTimeout):
            self.num_timed_out += 1
        elif finish.reason is FinishReason.ABORTED:
            self.num_aborted += 1
        elif finish.reason is FinishReason.ERROR:
            self.num_failed += 1
        else:
            self.num_completed += 1


@dataclass(frozen=True)
class WorkerStats:
    """A snapshot; `counts` is a copy. Pages are free, used, or cached for whoever has the same prefix.

    page_len: positions a page holds.
    """

    num_slots: int
    num_slots_used: int
    num_queued: int
    num_paused: int  # no rows until their clients read; in a slot or parked without one
    num_pages: int
    num_pages_used: int
    num_pages_cached: int
    num_pages_evicted: int  # in total: cached once, and taken for something else
    pressure: Pressure
    page_len: int
    counts: WorkerCounts
