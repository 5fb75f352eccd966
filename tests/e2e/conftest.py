"""Two small models and one server that serves both, shared by the tests that only ask it things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess, server_process
from tests.fakes.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="session")
def model_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "alpha": write_tiny_gguf(folder / "alpha.gguf", arch="llama", quant="Q8_0", seed=1),
        "beta": write_tiny_gguf(folder / "beta.gguf", arch="qwen3", quant="Q4_0", seed=2),
    }


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, model_files: dict[str, Path]
) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("data")) as running:
        named = [
            arg
            for name, path in model_files.items()
            for arg in ("--model", str(path), "--name", name)
        ]
        running.serve(*named)
        running.wait_until_serving("alpha", "beta")
        yield running
