"""Unloading while 32 streams run: each ends in exactly one way, and nothing is left behind.

A drain lets all of them finish, a force ends them with an error event, a timeout does so once it is
up, and a cancelled unload changes nothing for anybody.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.e2e.abuse import rss_bytes
from tests.e2e.server_process import ServerProcess, server_process
from tests.fakes.tiny_gguf import TinyShape, write_tiny_gguf

NUM_STREAMS = 32
NO_END = {"276": -100, "278": -100}
SOON_S = 60
UNLOADED = "The model was unloaded while this request was running."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serves nothing yet; `busy.gguf` lies in its model folder."""
    folder = tmp_path_factory.mktemp("unloading")
    (folder / "models").mkdir()
    write_tiny_gguf(folder / "models" / "busy.gguf", shape=TinyShape(context_len=8192))
    settings = {"PANTHEON_CONTEXT_LEN": "8192", "PANTHEON_KV_TOKENS": "65536"}
    with server_process(folder, **settings) as running:
        running.serve()
        yield running


@dataclass
class Control:
    """The control API, as an operator's script uses it."""

    server: ServerProcess
    headers: dict[str, str]

    def post(self, what: str, status: int = 200, **body: Any) -> Any:
        answer = httpx.post(
            f"{self.server.url}/admin/models/{what}", json=body, headers=self.headers, timeout=60
        )
        assert answer.status_code == status, answer.text
        return answer.json()

    def models(self) -> list[str]:
        answer = httpx.get(f"{self.server.url}/v1/models", headers=self.headers)
        return [model["id"] for model in answer.json()["data"]]


@pytest.fixture(scope="module")
def operator(server: ServerProcess) -> Control:
    made = Control(server, server.admin_key())
    server.wait_until_serving(headers=made.headers)
    return made


@pytest.fixture
def control(operator: Control) -> Iterator[Control]:
    """With `busy` loaded."""
    operator.post("load", path="busy.gguf", name="busy")
    yield operator
    if operator.models():
        operator.post("unload", name="busy", mode="force")


@dataclass
class Streams:
    """32 clients that read to the end. `endings`: one for each, "result" or an error's message."""

    endings: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self, control: Control, max_tokens: int) -> None:
        for seed in range(NUM_STREAMS):
            body = {
                "model": "busy",
                "messages": [{"role": "user", "content": "hello there"}],
                "max_tokens": max_tokens,
                "logit_bias": NO_END,
                "seed": seed,
                "stream": True,
            }
            self.threads.append(threading.Thread(target=self._read, args=(control, body)))
            self.threads[-1].start()
        for _ in range(8):  # as many as there are slots; the others wait in the queue
            assert self.begun.acquire(timeout=SOON_S)

    def wait(self) -> Counter[str]:
        for thread in self.threads:
            thread.join(SOON_S)
        assert len(self.endings) == NUM_STREAMS
        return Counter(self.endings)

    def _read(self, control: Control, body: dict[str, Any]) -> None:
        url = f"{control.server.url}/v1/chat/completions"
        with httpx.stream("POST", url, json=body, headers=control.headers, timeout=60) as answer:
            if answer.status_code != 200:
                answer.read()
                self.endings.append(answer.json()["error"]["message"])
                return
            finishes, errors, last = 0, [], ""
            for line in answer.iter_lines():
                if not line.startswith("data: "):
                    continue
                self.begun.release()
                last = line
                errors += [line] if '"error"' in line else []
                finishes += '"finish_reason":"length"' in line
        assert last == "data: [DONE]"
        assert finishes + len(errors) == 1
        told = errors[0] if errors else "result"
        self.endings.append(UNLOADED if UNLOADED in told else told)


def becomes(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_drain_lets_every_stream_finish(control: Control) -> None:
    """Those in the queue too; who comes later is refused, and then the memory is back."""
    streams = Streams()
    streams.start(control, max_tokens=400)
    control.post("unload", name="busy", timeout_s=120)
    assert streams.wait() == {"result": NUM_STREAMS}
    assert control.models() == []


def test_a_force_ends_every_stream_with_an_error(control: Control) -> None:
    streams = Streams()
    streams.start(control, max_tokens=8000)
    started_s = time.monotonic()
    control.post("unload", name="busy", mode="force")
    assert time.monotonic() - started_s < 5
    endings = streams.wait()
    assert endings[UNLOADED] >= 8
    assert "result" not in endings
    assert control.models() == []


def test_a_timeout_ends_what_is_left_then(control: Control) -> None:
    streams = Streams()
    streams.start(control, max_tokens=8000)
    started_s = time.monotonic()
    control.post("unload", name="busy", timeout_s=1.5)
    assert 1.5 <= time.monotonic() - started_s < 6
    endings = streams.wait()
    assert endings[UNLOADED] >= 8
    assert control.models() == []


def test_a_cancelled_unload_changes_nothing(control: Control) -> None:
    """D4: every stream ends in its result, and the model goes on serving."""
    streams = Streams()
    streams.start(control, max_tokens=1500)
    asked = control.post("unload", 202, name="busy", timeout_s=600, wait=False)
    becomes(lambda: control.models() == [])
    replica_id = asked["replicas"][0]["replica_id"]
    services = "from registry import services"
    cancel = f"{services}; services.replica_cancel_unload(replica_id={replica_id!r}, actor='test')"
    control.server.manage("shell", "-c", cancel)
    becomes(lambda: control.models() == ["busy"])
    assert streams.wait() == {"result": NUM_STREAMS}
    assert control.models() == ["busy"]


@pytest.mark.slow
def test_memory_does_not_grow_with_unloads_under_load(control: Control) -> None:
    server = control.server
    sizes = []
    for _ in range(12):
        streams = Streams()
        streams.start(control, max_tokens=8000)
        control.post("unload", name="busy", mode="force")
        streams.wait()
        sizes.append(rss_bytes(server))
        control.post("load", path="busy.gguf", name="busy")
    assert max(sizes[6:]) - max(sizes[:6]) < 16 << 20
