"""However the server was started, a signal ends it soon, with status 0, whatever it was doing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.server_process import ServerProcess, server_process
from tests.fakes.tiny_gguf import TinyShape, write_tiny_gguf

ENDLESS = {
    "messages": [{"role": "user", "content": "hello there"}],
    "max_tokens": 8000,
    "logit_bias": {"276": -100, "278": -100},  # no end
    "stream": True,
}
ENTRY_POINTS = {
    "serve": ["manage.py", "serve", "--port", "PORT"],
    "daphne": ["-m", "daphne", "-p", "PORT", "pantheon_site.asgi:application"],
    "runserver": ["manage.py", "runserver", "--noreload", "127.0.0.1:PORT"],
}
SOON_S = 15  # on a busy machine


def start(server: ServerProcess, entry_point: str) -> None:
    server.start(*(word.replace("PORT", str(server.port)) for word in ENTRY_POINTS[entry_point]))


def send(server: ServerProcess, number: signal.Signals) -> None:
    assert server.process is not None
    server.process.send_signal(number)


def ending(server: ServerProcess) -> int:
    assert server.process is not None and server.collector is not None
    status = server.process.wait(timeout=SOON_S)
    server.collector.join()
    return status


@contextmanager
def running_stream(server: ServerProcess) -> Iterator[None]:
    with httpx.stream(
        "POST", f"{server.url}/v1/chat/completions", json=ENDLESS, timeout=60
    ) as answer:
        lines = answer.iter_lines()  # kept: the end of an iterator closes the connection
        assert "assistant" in next(lines)
        yield


@pytest.fixture(scope="module")
def long_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Not running; its database wants a model that can write for long."""
    folder = tmp_path_factory.mktemp("stopping")
    model = write_tiny_gguf(folder / "long.gguf", shape=TinyShape(context_len=8192))
    slow = {"PANTHEON_BACKEND": "reference", "PANTHEON_CONTEXT_LEN": "8192"}
    with server_process(folder, **slow) as server:
        server.serve("--model", str(model), "--name", "long")
        server.wait_until_serving("long")
        assert server.stop() == 0
        yield server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("entry_point", ["daphne", "runserver"])
def test_django_and_daphne_end_in_the_middle_of_a_stream(
    long_server: ServerProcess, entry_point: str, number: signal.Signals
) -> None:
    start(long_server, entry_point)
    long_server.wait_until_serving("long")
    with running_stream(long_server):
        send(long_server, number)
        assert ending(long_server) == 0


def test_a_second_signal_ends_serve_in_the_middle_of_a_stream(long_server: ServerProcess) -> None:
    """The first one says what it waits for and how to stop at once."""
    long_server.lines.clear()
    start(long_server, "serve")
    long_server.wait_until_serving("long")
    with running_stream(long_server):
        send(long_server, signal.SIGINT)
        deadline = time.monotonic() + SOON_S
        while "finishing 1 request (up to 30 s); Ctrl-C again" not in long_server.output:
            assert time.monotonic() < deadline, long_server.output
            time.sleep(0.02)
        send(long_server, signal.SIGINT)
        assert ending(long_server) == 0


@pytest.mark.parametrize("entry_point", ["serve", "daphne"])
def test_a_first_start_ends_between_two_kernels(tmp_path: Path, entry_point: str) -> None:
    """Also when somebody waits for a load that will not come; nothing says that the server is ready."""
    kernels = tmp_path / "kernels"
    folder = tmp_path / "models"
    folder.mkdir()
    write_tiny_gguf(folder / "tiny.gguf")
    with server_process(tmp_path, PANTHEON_KERNEL_CACHE_DIR=str(kernels)) as server:
        headers = server.admin_key()
        start(server, entry_point)

        def load() -> None:
            body = {"path": "tiny.gguf", "name": "tiny"}
            with suppress(httpx.TransportError):  # plain daphne just closes
                httpx.post(
                    f"{server.url}/admin/models/load", json=body, headers=headers, timeout=60
                )

        server.wait_until_serving(headers=headers)
        waiting = threading.Thread(target=load)
        waiting.start()
        while not list(kernels.rglob("*.nbc")):
            time.sleep(0.02)
        send(server, signal.SIGINT)
        assert ending(server) == 0
        waiting.join()
        assert "is ready" not in server.output
        assert "at next start" in server.manage("replicas")


def test_a_stop_during_a_first_start_prints_nothing_misleading(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    with server_process(tmp_path, PANTHEON_KERNEL_CACHE_DIR=str(kernels)) as server:
        server.serve("--model", str(model), "--name", "tiny")
        while not list(kernels.rglob("*.nbc")):
            time.sleep(0.02)
        for _ in range(3):  # an impatient user
            send(server, signal.SIGINT)
            time.sleep(0.05)
        assert ending(server) == 0
    assert "stopping" in server.output
    assert "curl" not in server.output and "Ctrl-C stops" not in server.output
    assert "Traceback" not in server.output
