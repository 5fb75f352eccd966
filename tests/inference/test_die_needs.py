"""What a model file is said to take of dies is what a load of it takes, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.die_needs import die_bytes
from inference.engine_settings import engine_settings
from inference.loading import LoadPlan, load_replica
from registry.demand import SCRATCH_BYTES, artifact_demand
from registry.errors import PlacementRefused
from registry.models import Artifact
from tests.conftest import GOLDEN

CONTEXT_LEN = 256


@pytest.fixture
def kv_type(settings, request) -> str:
    values = {"PANTHEON_KV_TYPE": request.param, "PANTHEON_CPU_THREADS": 1}
    settings.PANTHEON = settings.PANTHEON | values
    return str(request.param)


@pytest.mark.parametrize("num_dies", [1, 2])
@pytest.mark.parametrize(
    ("model", "kv_type", "quantise"),
    [
        ("qwen3.Q8_0", "f16", False),
        ("qwen3.Q8_0", "q8_0", False),
        ("gemma3-scaled.f16", "f32", False),
        ("gemma3-scaled.f16", "f16", True),
    ],
    indirect=["kv_type"],
)
def test_bytes_are_those_of_a_load(emulated, settings, model, kv_type, quantise, num_dies) -> None:
    """The planned shares, what a load asks to be admitted, and what its dies then hold."""
    path = GOLDEN / "tiny" / f"{model}.gguf"
    artifact = Artifact(name="m", path=str(path), context_len=1 << 20)
    shares = artifact_demand(artifact, CONTEXT_LEN, quantise=quantise).shares(num_dies)
    admitted: dict[int, int] = {}
    plan = LoadPlan("r", "m", path, "d", CONTEXT_LEN, tuple(range(num_dies)), quantise)
    replica = load_replica(
        plan,
        engine_settings(settings.PANTHEON),
        lambda phase, share: None,
        lambda replica_id, reason: None,
        admitted.update,
    )
    held = [emulated.used_bytes(die) for die in range(num_dies)]
    replica.close("done")
    assert list(shares) == list(admitted.values()) == held


@pytest.mark.parametrize("kv_type", ["f16"], indirect=True)
def test_fewer_bytes_of_keys_and_values_are_counted(settings, kv_type) -> None:
    """The difference between two types is their pages alone: 17/32 of them remain."""
    path = str(GOLDEN / "tiny" / "qwen3.Q8_0.gguf")
    (half,) = die_bytes(path, CONTEXT_LEN, False, 1)
    settings.PANTHEON = settings.PANTHEON | {"PANTHEON_KV_TYPE": "q8_0"}
    (eighth,) = die_bytes(path, CONTEXT_LEN, False, 1)
    settings.PANTHEON = settings.PANTHEON | {"PANTHEON_KV_TYPE": "f32"}
    (whole,) = die_bytes(path, CONTEXT_LEN, False, 1)
    pages = whole - half  # in f16
    assert (half - eighth) * 32 == pages * 15


def test_a_split_that_is_impossible_is_refused() -> None:
    with pytest.raises(PlacementRefused, match="on 40 dies"):
        die_bytes(str(GOLDEN / "tiny" / "qwen3.Q8_0.gguf"), CONTEXT_LEN, False, 40)


def test_a_file_that_cannot_be_read_is_estimated(tmp_path: Path) -> None:
    """Placement goes on; the load will say what is wrong."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, or not")
    assert die_bytes(str(broken), CONTEXT_LEN, False, 1) is None
    artifact = Artifact(
        name="m", path=str(tmp_path / "none"), weight_bytes=1 << 30, context_len=256
    )
    assert artifact_demand(artifact).shares(2) == ((1 << 29) + SCRATCH_BYTES,) * 2
