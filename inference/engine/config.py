"""The engine's settings for one replica, built once by `inference.runtime`. Reads no environment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineConfig:
    """context_len: most positions of one sequence. num_pages: KV pages shared by all slots (32 positions each)."""

    context_len: int
    num_pages: int
    num_slots: int = 8
    chunk_len: int = 128
    queue_depth: int = 32
    queue_wait_s: float = 30.0
