"""The engine's settings for one replica, built once by `inference.runtime`. Reads no environment."""

from __future__ import annotations

from dataclasses import dataclass

from accel.backend import PAGE_LEN


@dataclass(frozen=True)
class EngineConfig:
    """context_len: most positions of one sequence. num_pages: KV pages of all slots, 32 positions each.

    prefix_cache: keep full pages after their sequence, for requests that begin with the same tokens.

    The derived sizes are what `accel.backend.Limits` must be compiled with for this replica.
    """

    context_len: int
    num_pages: int
    num_slots: int = 8
    chunk_len: int = 128
    queue_depth: int = 32
    queue_wait_s: float = 30.0
    prefix_cache: bool = True

    @property
    def max_rows(self) -> int:
        """One slot's prompt chunk and a decode row of every other slot."""
        return self.chunk_len + self.num_slots - 1

    @property
    def max_logit_rows(self) -> int:
        return self.num_slots

    @property
    def max_pages_per_slot(self) -> int:
        return pages_for(self.context_len)

    @property
    def longest_sequence_len(self) -> int:
        """Most positions that one sequence can ever hold, by context and by memory."""
        return min(self.context_len, self.num_pages * PAGE_LEN)


def pages_for(num_positions: int) -> int:
    """Pages that hold so many positions."""
    return -(-num_positions // PAGE_LEN)
