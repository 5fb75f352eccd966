"""How much memory a replica of a model file will need. Reads settings; knows nothing about what is free.

On the host an estimate, by the same rules as the engine's own sizes. On dies what the engine says it will
take, to the byte, where it has said how to ask it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.conf import settings

from registry.models import Artifact, Replica
from registry.placement import Demand
from registry.sizes import MIB

DEFAULT_CONTEXT_LEN = 8192
# Activations, logits and tables of a step: estimated generously, they are small beside the weights.
SCRATCH_BYTES = 64 * MIB
# Bytes of 32 values, by KV type: with a float16 scale where they are quantised.
KV_BLOCK_BYTES = {"f32": 128, "f16": 64, "q8_0": 34, "q4_0": 18}

# (path, context_len, quantise, number of dies) -> bytes on each, None where the file cannot be measured.
# Raises: PlacementRefused, for a model that so many dies cannot run.
Measure = Callable[[str, int, bool, int], tuple[int, ...] | None]

_measure: Measure | None = None


def measure_with(measure: Measure) -> None:
    """Let `measure` tell what a model file takes of dies, in place of an estimate."""
    global _measure
    _measure = measure


def artifact_demand(artifact: Artifact, context_len: int = 0, *, quantise: bool = False) -> Demand:
    """`context_len` in tokens; 0: the server's default. Never longer than the model was trained for."""
    wanted = context_len or settings.PANTHEON["PANTHEON_CONTEXT_LEN"] or DEFAULT_CONTEXT_LEN
    actual = min(wanted, artifact.context_len or wanted)
    kv_tokens = max(settings.PANTHEON["PANTHEON_KV_TOKENS"] or 2 * actual, actual)
    return Demand(
        name=artifact.name,
        weight_bytes=artifact.weight_bytes,
        kv_bytes=kv_tokens * kv_bytes_per_token(artifact),
        scratch_bytes=SCRATCH_BYTES,
        context_len=actual,
        kv_tokens=kv_tokens,
        measured=_measure and partial(_measure, artifact.path, actual, quantise),
    )


def kv_bytes_per_token(artifact: Artifact) -> int:
    """Of keys and values of one position in all layers, in the type that this server keeps them in."""
    block_bytes = KV_BLOCK_BYTES[settings.PANTHEON["PANTHEON_KV_TYPE"]]
    return artifact.kv_bytes_per_token * block_bytes // KV_BLOCK_BYTES["f16"]


def replica_demand(replica: Replica) -> Demand:
    return artifact_demand(replica.artifact, replica.context_len, quantise=replica.quantize)
