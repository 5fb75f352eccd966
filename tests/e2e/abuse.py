"""What a test of hostile clients measures: the server's memory, and how long everybody else waits.

Owns the probe that stands for everybody else. Knows no attack.
"""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.server_process import ServerProcess

MAX_GROWTH_BYTES = 64 << 20
PROBE_EVERY_S = 0.1
SLACK_S = (
    0.25  # what two cores that others want too add: a server that waits for a client takes seconds
)


def rss_bytes(server: ServerProcess) -> int:
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


@dataclass
class Watch:
    """Answers of the probe during an attack, and the most memory that was seen."""

    normal_s: float
    rss_before: int
    rss_most: int = 0
    latencies_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def growth_bytes(self) -> int:
        return self.rss_most - self.rss_before

    def forget_times(self) -> None:
        """Measure from here on; failures and memory are kept."""
        self.latencies_s = []

    def check(self) -> None:
        assert not self.failures
        assert len(self.latencies_s) >= 5
        seen_s, worst_s = statistics.median(self.latencies_s), max(self.latencies_s)
        told = f"median {seen_s:.3f} s, most {worst_s:.3f} s, normally {self.normal_s:.3f} s"
        assert seen_s <= 3 * self.normal_s + SLACK_S, told
        assert worst_s <= 20 * self.normal_s + 10 * SLACK_S, told
        assert self.growth_bytes <= MAX_GROWTH_BYTES


@contextmanager
def watching(server: ServerProcess, model: str) -> Iterator[Watch]:
    """Ask for short answers all the time, from before the block to its end."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for _ in range(5):  # the first ones fill caches that stay
            _probe(client, model)
        normal_s = statistics.median(_probe(client, model) for _ in range(10))
        watch = Watch(normal_s, rss_bytes(server))
        is_over = threading.Event()

        def watch_on() -> None:
            while not is_over.wait(PROBE_EVERY_S):
                try:
                    watch.latencies_s.append(_probe(client, model))
                except (httpx.HTTPError, AssertionError) as error:
                    watch.failures.append(repr(error))
                watch.rss_most = max(watch.rss_most, rss_bytes(server))

        thread = threading.Thread(target=watch_on)
        thread.start()
        try:
            yield watch
        finally:
            is_over.set()
            thread.join()


def _probe(client: httpx.Client, model: str) -> float:
    started_s = time.monotonic()
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return time.monotonic() - started_s


def connect(server: ServerProcess, receive_bytes: int | None = None) -> socket.socket:
    """`receive_bytes`: the most the kernel keeps for a client that does not read."""
    connection = socket.socket()
    connection.settimeout(30)
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.connect(("127.0.0.1", server.port))
    return connection


def post(connection: socket.socket, body: dict[str, Any]) -> None:
    payload = json.dumps(body).encode()
    connection.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(payload) + payload
    )
