"""What the operator set for the engine: from Django's settings to its own. Owns that translation alone."""

from __future__ import annotations

from typing import Any

from accel.host import num_cores
from inference.loading import EngineSettings


def engine_settings(values: dict[str, Any]) -> EngineSettings:
    num_slots = values["PANTHEON_BATCH_SLOTS"]
    return EngineSettings(
        backend=values["PANTHEON_BACKEND"],
        kernel_cache_dir=values["PANTHEON_KERNEL_CACHE_DIR"],
        num_threads=values["PANTHEON_CPU_THREADS"] or num_cores(),
        isa=values["PANTHEON_CPU_ISA"],
        num_slots=num_slots or 1,
        context_len=values["PANTHEON_CONTEXT_LEN"],
        kv_tokens=values["PANTHEON_KV_TOKENS"],
        kv_type=values["PANTHEON_KV_TYPE"],
        chunk_len=values["PANTHEON_PREFILL_CHUNK"],
        # One at a time means nobody waits either: a second request is told at once.
        queue_depth=values["PANTHEON_QUEUE_DEPTH"] if num_slots else 0,
        prefix_cache=values["PANTHEON_PREFIX_CACHE"],
        queue_wait_s=values["PANTHEON_QUEUE_WAIT_S"],
        step_stats=values["PANTHEON_STEP_STATS"],
    )
