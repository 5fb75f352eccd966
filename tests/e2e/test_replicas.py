"""Two replicas of one name: whichever answers, the same seed gives the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import ServerProcess, server_process
from tests.fakes.tiny_gguf import write_tiny_gguf

ASKED = [
    {"seed": 3, "temperature": 1.0, "max_tokens": 60},
    {"seed": 4, "temperature": 1.3, "top_p": 0.9, "max_tokens": 60, "logprobs": True},
    {"seed": 5, "temperature": 0.7, "frequency_penalty": 0.8, "max_tokens": 60},
    {"temperature": 0, "max_tokens": 60},
]


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ServerProcess, dict[str, str]]]:
    """A server with two replicas of `twin`, and headers that may ask it anything."""
    folder = tmp_path_factory.mktemp("twins")
    (folder / "models").mkdir()
    write_tiny_gguf(folder / "models" / "twin.gguf", arch="qwen3", quant="Q4_0", seed=4)
    with server_process(folder) as running:
        headers = running.admin_key()
        running.serve()
        running.wait_until_serving(headers=headers)
        body = {"path": "twin.gguf", "name": "twin", "another": True}
        for _ in range(2):
            loaded = httpx.post(
                f"{running.url}/admin/models/load", json=body, headers=headers, timeout=60
            )
            assert loaded.json()["state"] == "ready"
        yield running, headers


def ask(server: ServerProcess, headers: dict[str, str], asked: dict[str, Any]) -> tuple[str, Any]:
    """Which replica answered, and its answer."""
    body = {"model": "twin", "messages": [{"role": "user", "content": "hello there"}], **asked}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    request_id = answer.headers["x-request-id"]
    record = httpx.get(f"{server.url}/v1/requests/{request_id}", headers=headers).json()
    return record["replica_id"], answer.json()["choices"]


@pytest.mark.parametrize("asked", ASKED, ids=["drawn", "with logprobs", "penalised", "greedy"])
def test_either_replica_gives_the_same_answer(
    pair: tuple[ServerProcess, dict[str, str]], asked: dict[str, Any]
) -> None:
    """Bit for bit, logprobs too; the second time each answers from its prefix cache."""
    answers = [ask(*pair, asked) for _ in range(6)]
    assert len({replica for replica, _ in answers}) == 2
    assert all(choices == answers[0][1] for _, choices in answers)


def test_they_are_listed_as_one_model(pair: tuple[ServerProcess, dict[str, str]]) -> None:
    server, headers = pair
    listed = httpx.get(f"{server.url}/v1/models", headers=headers).json()["data"]
    assert [model["id"] for model in listed] == ["twin"]
