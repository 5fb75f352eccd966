"""The project under daphne on a local port, in a thread of the test process.

Owns the one Twisted reactor a process can have: started at first use, shared by all tests, gone with
the process. Which models answer is the runtime's matter (`inference.runtime_access.set_runtime`).
"""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from functools import lru_cache

from django.core.handlers.asgi import ASGIHandler


@dataclass(frozen=True)
class LiveServer:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def connect(self, timeout_s: float = 20.0) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=timeout_s)


@lru_cache(maxsize=1)
def live_server() -> LiveServer:
    from daphne.server import Server  # installs a reactor as it is imported

    started = threading.Event()
    server = Server(
        ASGIHandler(),
        endpoints=["tcp:port=0:interface=127.0.0.1"],
        signal_handlers=False,
        ready_callable=started.set,
    )
    threading.Thread(target=server.run, name="live-server", daemon=True).start()
    if not started.wait(timeout=20) or not server.listening_addresses:
        raise RuntimeError("daphne did not start within 20 s")
    host, port = server.listening_addresses[0]
    return LiveServer(host, port)
