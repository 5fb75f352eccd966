"""What is wanted survives restarts and crashes; unloading drains; one process per data folder."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.server_process import ServerProcess, server_process
from tests.fakes.tiny_gguf import TinyShape, write_tiny_gguf

QUESTION = [{"role": "user", "content": "hello there"}]


@pytest.fixture
def own_server(tmp_path: Path, model_files: dict[str, Path]) -> Iterator[ServerProcess]:
    """A server of the test's own, serving `alpha`."""
    with server_process(tmp_path) as running:
        running.serve("--model", str(model_files["alpha"]), "--name", "alpha")
        running.wait_until_serving("alpha")
        yield running


def test_a_stopped_server_serves_the_same_models_when_started_again(
    own_server: ServerProcess,
) -> None:
    assert own_server.stop() == 0
    own_server.serve()
    own_server.wait_until_serving("alpha")
    answer = own_server.client().chat.completions.create(
        model="alpha", messages=QUESTION, max_tokens=3
    )
    assert answer.choices


def test_a_killed_server_serves_the_same_models_when_started_again(
    own_server: ServerProcess,
) -> None:
    assert own_server.process is not None
    own_server.process.send_signal(signal.SIGKILL)
    own_server.process.wait()
    own_server.start("-m", "daphne", "-p", str(own_server.port), "pantheon_site.asgi:application")
    own_server.wait_until_serving("alpha")


def test_runserver_serves_the_same_thing(own_server: ServerProcess) -> None:
    own_server.stop()
    own_server.start("manage.py", "runserver", "--noreload", f"127.0.0.1:{own_server.port}")
    own_server.wait_until_serving("alpha")


def test_a_second_process_on_the_same_folder_is_refused(own_server: ServerProcess) -> None:
    second = ServerProcess(own_server.data_dir)
    second.serve()
    assert second.process is not None
    assert second.process.wait(timeout=60) != 0
    assert "Another Pantheon process" in second.output


def test_unloading_drains_running_streams(
    own_server: ServerProcess, model_files: dict[str, Path]
) -> None:
    headers = own_server.admin_key()
    ended: list[str] = []
    started = threading.Barrier(9)

    def stream(i: int) -> None:
        client = own_server.client(default_headers=headers)
        parts = client.chat.completions.create(
            model="alpha",
            messages=QUESTION,
            seed=i,
            max_tokens=200,
            logit_bias={"278": -100},
            stream=True,
        )
        first = next(iter(parts))
        assert first.choices[0].delta.role == "assistant"
        started.wait()
        ended.extend(c.choices[0].finish_reason for c in parts if c.choices[0].finish_reason)

    threads = [threading.Thread(target=stream, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    started.wait()
    answer = httpx.post(
        f"{own_server.url}/admin/models/unload", json={"name": "alpha"}, headers=headers, timeout=60
    )
    for thread in threads:
        thread.join()
    assert answer.status_code == 200
    assert [r["state"] for r in answer.json()["replicas"]] == ["unloaded"]
    assert len(ended) == 8 and set(ended) <= {"stop", "length"}
    gone = httpx.post(
        f"{own_server.url}/v1/chat/completions",
        json={"model": "alpha", "messages": QUESTION},
        headers=headers,
    )
    assert gone.status_code == 503


def test_a_model_is_loaded_and_unloaded_over_http(
    own_server: ServerProcess, model_files: dict[str, Path]
) -> None:
    headers = own_server.admin_key()
    folder = own_server.data_dir / "models"
    folder.mkdir(exist_ok=True)
    (folder / "beta.gguf").write_bytes(model_files["beta"].read_bytes())
    body = {"path": "beta.gguf", "name": "beta"}
    loaded = httpx.post(
        f"{own_server.url}/admin/models/load", json=body, headers=headers, timeout=60
    )
    assert loaded.status_code == 200, loaded.text
    assert loaded.json()["state"] == "ready"
    listed = httpx.get(f"{own_server.url}/v1/models", headers=headers).json()["data"]
    assert [model["id"] for model in listed] == ["alpha", "beta"]
    outside = {"path": str(model_files["alpha"]), "name": "gamma"}
    refused = httpx.post(f"{own_server.url}/admin/models/load", json=outside, headers=headers)
    assert refused.status_code == 400
    taken = {"path": "beta.gguf", "name": "alpha"}
    assert (
        httpx.post(f"{own_server.url}/admin/models/load", json=taken, headers=headers).status_code
        == 409
    )
    dies = httpx.get(f"{own_server.url}/admin/dies", headers=headers).json()
    assert dies["dies"] == [] and dies["reason"]


def test_a_stopping_server_ends_what_does_not_finish_with_an_error_event(
    tmp_path: Path,
) -> None:
    """Nobody is left with half an answer that looks whole."""
    long = write_tiny_gguf(tmp_path / "long.gguf", shape=TinyShape(context_len=8192))
    slow = {"PANTHEON_BACKEND": "reference", "PANTHEON_CONTEXT_LEN": "8192"}
    with server_process(tmp_path, PANTHEON_SHUTDOWN_S="0.5", **slow) as running:
        running.serve("--model", str(long), "--name", "long")
        running.wait_until_serving("long")
        body = {"messages": QUESTION, "max_tokens": 8000}
        body["logit_bias"] = {"276": -100, "278": -100}  # no end
        with httpx.stream(
            "POST", f"{running.url}/v1/chat/completions", json={**body, "stream": True}, timeout=60
        ) as answer:
            events = (line for line in answer.iter_lines() if line)
            assert "assistant" in next(events)
            assert running.process is not None
            running.process.terminate()
            *_, last, done = events
        assert "The server is shutting down." in last
        assert done == "data: [DONE]"
        assert running.process.wait(timeout=30) == 0
