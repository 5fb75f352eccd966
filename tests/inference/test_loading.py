"""A model file becomes a served replica of the right size, or a typed refusal with nothing left over."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from inference.engine.params import FinishReason, SamplingParams, SequenceRequest
from inference.engine.pressure import Pressure
from inference.loading import EngineSettings, LoadPlan, limits, load_replica, sampling_of, sizes
from inference.model.errors import GGUFError
from inference.model.sampling_defaults import SamplingDefaults
from tests.fakes.tiny_gguf import write_tiny_gguf


def settings(**changed: object) -> EngineSettings:
    values = {"backend": "reference", "kernel_cache_dir": Path("/nonexistent"), "num_threads": 1}
    return EngineSettings(**(values | changed))  # type: ignore[arg-type]


def test_context_is_what_was_asked_for_within_what_the_model_knows() -> None:
    assert sizes(settings(), 2048, 0).context_len == 2048
    assert sizes(settings(), 131_072, 0).context_len == 8192
    assert sizes(settings(context_len=512), 2048, 0).context_len == 512
    assert sizes(settings(context_len=512), 2048, 1024).context_len == 1024
    assert sizes(settings(context_len=4096), 2048, 0).context_len == 2048


def test_pages_hold_twice_the_context_unless_said_otherwise() -> None:
    assert sizes(settings(), 1024, 0).num_pages == 64
    assert sizes(settings(kv_tokens=3200), 1024, 0).num_pages == 100


def test_one_sequence_of_full_length_always_fits() -> None:
    assert sizes(settings(kv_tokens=64), 1000, 0).num_pages == 32


def test_a_step_has_room_for_every_slot_and_one_chunk() -> None:
    fixed = limits(sizes(settings(num_slots=3, chunk_len=50), 1000, 0), num_threads=2)
    assert (fixed.max_rows, fixed.max_logit_rows, fixed.max_pages_per_slot) == (52, 3, 32)


def test_the_prefix_cache_is_on_unless_switched_off() -> None:
    assert sizes(settings(), 1024, 0).prefix_cache
    assert not sizes(settings(prefix_cache=False), 1024, 0).prefix_cache


def test_a_replica_looks_at_the_hosts_memory_pressure(tmp_path: Path) -> None:
    plan = LoadPlan("r1", "tiny", write_tiny_gguf(tmp_path / "tiny.gguf"), digest="d")
    replica = load_replica(
        plan,
        settings(),
        lambda p, s: None,
        lambda r, w: None,
        pressure=lambda needed_bytes=0: Pressure.HIGH,
    )
    try:
        assert replica.worker.stats().pressure is Pressure.HIGH
    finally:
        replica.close("done")


def test_a_replica_samples_as_its_file_asks(tmp_path: Path) -> None:
    assert sampling_of(SamplingDefaults()) == SamplingParams()
    wanted = SamplingDefaults(temperature=0.7, repeat_last_n=-1)
    assert sampling_of(wanted) == SamplingParams(temperature=0.7, repeat_last_n=-1)


@pytest.mark.parametrize("step_stats", [False, True])
def test_steps_are_told_on_stderr_when_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], step_stats: bool
) -> None:
    plan = LoadPlan("r1", "tiny", write_tiny_gguf(tmp_path / "tiny.gguf"), digest="d")
    replica = load_replica(
        plan, settings(step_stats=step_stats), lambda p, s: None, lambda r, w: None
    )
    try:
        stream = replica.worker.submit(SequenceRequest("q", (1, 2, 3), max_tokens=2))
        while stream.wait(20):
            pass
    finally:
        replica.close("done")
    told = capfd.readouterr().err
    assert ("step=2 model=tiny decodes=1 prompt_tokens=0 plan_ms=" in told) is step_stats
    assert ("step=" in told) is step_stats


def test_a_loaded_replica_generates(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    phases: list[str] = []
    plan = LoadPlan("r1", "tiny", path, digest="d", context_len=64)
    replica = load_replica(plan, settings(), lambda p, s: phases.append(p), lambda r, why: None)
    try:
        assert (replica.served_name, replica.context_len) == ("tiny", 64)
        assert phases
        stream = replica.worker.submit(
            SequenceRequest("q", (1, 2, 3), max_tokens=4, sampling=SamplingParams(temperature=0))
        )
        tokens = []
        while got := stream.wait():
            tokens.extend(got)
        assert len(tokens) == 4
        assert stream.finish is not None and stream.finish.reason is FinishReason.LENGTH
    finally:
        replica.close("done")


def test_a_malformed_file_is_refused_and_leaves_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 64)
    before = threading.active_count()
    with pytest.raises(GGUFError):
        load_replica(
            LoadPlan("r1", "bad", path, digest=""), settings(), lambda p, s: None, lambda r, w: None
        )
    assert threading.active_count() == before
