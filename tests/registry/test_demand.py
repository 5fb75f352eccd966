"""What a replica is said to need follows the type in which keys and values are kept."""

from __future__ import annotations

import pytest

from kernels.cpu.kv_types import KV_TYPES, part_bytes
from registry.demand import KV_BLOCK_BYTES, artifact_demand
from registry.models import Artifact

ARTIFACT = Artifact(name="m", context_len=1000, kv_bytes_per_token=64 * 30)


@pytest.mark.parametrize(("kv_type", "block_bytes"), KV_BLOCK_BYTES.items())
def test_kv_bytes(settings, kv_type, block_bytes):
    settings.PANTHEON = settings.PANTHEON | {"PANTHEON_KV_TYPE": kv_type}
    demand = artifact_demand(ARTIFACT)
    assert demand.kv_bytes == demand.kv_tokens * 30 * block_bytes


def test_blocks_are_as_large_as_the_kernels_make_them():
    """Of a page of 32 positions and one block of features."""
    assert {name: 32 * n for name, n in KV_BLOCK_BYTES.items()} == {
        name: part_bytes.py_func(number, 32) for name, number in KV_TYPES.items()
    }
