"""HTTP by hand, so that tests see the bytes: requests over a fresh socket, and events as they came."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fakes.live_server import LiveServer

ERROR_FIELDS = {"message", "type", "param", "code"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error envelope, its form checked."""
        assert self.headers["content-type"].startswith("application/json")
        assert self.json.keys() == {"error"}
        error: dict[str, Any] = self.json["error"]
        assert error.keys() == ERROR_FIELDS
        assert isinstance(error["message"], str)
        assert error["message"]
        assert isinstance(error["type"], str)
        for name in ("param", "code"):
            assert error[name] is None or isinstance(error[name], str)
        return error

    @property
    def events(self) -> list[str]:
        """The data of each event, comments left out; anything else in the body fails."""
        text = self.body.decode()
        assert text.endswith("\n\n")
        found = []
        for part in text.removesuffix("\n\n").split("\n\n"):
            if part.startswith(":"):
                continue
            assert part.startswith("data: ")
            assert "\n" not in part
            found.append(part.removeprefix("data: "))
        return found

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The events of a stream that ended well."""
        *chunks, done = self.events
        assert done == "[DONE]"
        return [json.loads(each) for each in chunks]


@dataclass(frozen=True)
class Wire:
    server: LiveServer

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """`body` is sent as JSON, bytes as they are."""
        return self.ask("POST", path, body, **headers)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def chat(self, content: str = "Hi", **fields: object) -> Answer:
        messages = [{"role": "user", "content": content}]
        return self.post("/v1/chat/completions", {"messages": messages, **fields})

    def complete(self, prompt: object = "Hi", **fields: object) -> Answer:
        return self.post("/v1/completions", {"prompt": prompt, **fields})

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        with self.send(method, path, body, **headers) as connection:
            return read_answer(connection, is_head=method == "HEAD")

    def send(self, method: str, path: str, body: object = None, **headers: str) -> socket.socket:
        """The connection after the whole request was sent. Underscores in header names become dashes."""
        connection = self.server.connect()
        connection.sendall(request_bytes(method, path, body, **headers))
        return connection


def request_bytes(method: str, path: str, body: object = None, **headers: str) -> bytes:
    sent = {"Host": "localhost", "Connection": "close"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    raw = b""
    if body is not None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent["Content-Length"] = str(len(raw))
        sent.setdefault("Content-Type", "application/json")
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + raw


def read_answer(connection: socket.socket, received: bytes = b"", is_head: bool = False) -> Answer:
    """Everything up to the end of the connection; `received` was read before."""
    while piece := connection.recv(65536):
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines)
    headers = {name.lower(): value for name, value in pairs}
    if headers.get("transfer-encoding") == "chunked" and not is_head:
        body = _unchunked(body)
    return Answer(int(status_line.split(" ")[1]), headers, body)


def read_until(connection: socket.socket, mark: bytes, count: int = 1) -> bytes:
    """What came up to the piece that holds the mark, so many times in all."""
    received = b""
    while received.count(mark) < count:
        piece = connection.recv(65536)
        assert piece, f"the connection ended before {mark!r}: {received[-500:]!r}"
        received += piece
    return received


def _unchunked(body: bytes) -> bytes:
    pieces = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        pieces.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(pieces)


def wait_until(holds: Callable[[], bool], within_s: float = 5.0) -> float:
    """How long it took, in seconds."""
    started_s = time.monotonic()
    while not holds():
        if time.monotonic() - started_s > within_s:
            raise AssertionError(f"it did not happen within {within_s} s")
        time.sleep(0.002)
    return time.monotonic() - started_s
