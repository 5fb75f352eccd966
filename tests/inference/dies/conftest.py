"""A supervisor with emulated dies, and a tiny model for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference import catalogue
from inference.dies import DieSettings, DieWatch, serve_with
from inference.loading import EngineSettings
from inference.runtime import Runtime
from inference.supervisor import Supervisor
from registry.models import Artifact
from tests.fakes.tiny_gguf import write_tiny_gguf

SETTINGS = EngineSettings(
    backend="auto",
    kernel_cache_dir=Path("/nonexistent"),
    num_threads=1,
    context_len=64,
    num_slots=2,
    chunk_len=8,
)


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def start(emulated, runtime: Runtime, tmp_path: Path) -> Iterator[Callable[[], Supervisor]]:
    running: list[Supervisor] = []

    def start_one() -> Supervisor:
        dies = DieWatch(DieSettings(wanted=True, reserve_bytes=1 << 30))
        supervisor = Supervisor(runtime, SETTINGS, tmp_path, drain_s=5, dies=dies)
        supervisor.start()
        serve_with(dies)
        running.append(supervisor)
        return supervisor

    yield start_one
    for supervisor in running:
        supervisor.stop()
    serve_with(None)
    assert emulated.num_contexts() == 0


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    return catalogue.register_file(write_tiny_gguf(tmp_path / "tiny.gguf"), source="test")
