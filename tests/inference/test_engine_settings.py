"""Settings become the engine's settings."""

from __future__ import annotations

from inference.engine_settings import engine_settings
from pantheon_site import env


def test_defaults_batch_and_queue() -> None:
    settings = engine_settings(env.read({}))
    assert (settings.num_slots, settings.queue_depth, settings.chunk_len) == (8, 32, 128)
    assert settings.num_threads >= 1
    assert settings.prefix_cache


def test_one_at_a_time_has_no_queue() -> None:
    """S34: a second request is told at once."""
    settings = engine_settings(env.read({"PANTHEON_BATCH_SLOTS": "0"}))
    assert (settings.num_slots, settings.queue_depth) == (1, 0)
