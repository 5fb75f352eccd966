"""The project under its own server on a local port, in a thread of the test process.

Owns the one Twisted reactor a process can have: started at first use, shared by all tests, gone with
the process. Which models answer is the runtime's matter (`inference.runtime_access.set_runtime`).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from inference.api.handler import ApiHandler
from inference.api.metrics import translate_counted
from inference.http_server.limits import Limits


@dataclass(frozen=True)
class LiveServer:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def connect(self, timeout_s: float = 20.0, receive_bytes: int | None = None) -> socket.socket:
        """`receive_bytes`: the most the kernel keeps for a client that does not read."""
        connection = socket.socket()
        connection.settimeout(timeout_s)
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            connection.connect((self.host, self.port))
        except OSError:
            connection.close()
            raise
        return connection


@lru_cache(maxsize=1)
def live_server() -> LiveServer:
    return LiveServer(*listening(ApiHandler(), Limits()).listening_addresses[0])


def listening(application: Any, limits: Limits) -> Any:
    """One more server on the process's reactor, ready when this returns."""
    from inference.http_server.server import Server  # installs a reactor as it is imported

    server = Server(application, "127.0.0.1", 0, limits, translate_counted)
    on_reactor(server.start)
    return server


def on_reactor(act: Callable[[], object]) -> None:
    """Done when this returns."""
    from twisted.internet import reactor

    _start_reactor()
    done = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            done.set()

    reactor.callFromThread(run)
    if not done.wait(timeout=20) or failed:
        raise RuntimeError("the reactor did not do its work within 20 s") from next(
            iter(failed), None
        )


@lru_cache(maxsize=1)
def _start_reactor() -> None:
    from twisted.internet import reactor

    threading.Thread(target=reactor.run, args=(False,), name="live-server", daemon=True).start()
