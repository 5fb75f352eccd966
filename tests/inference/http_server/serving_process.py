"""A server in a process of its own, for tests of its end: prints its port, then serves slow streams.

    python -m tests.inference.http_server.serving_process SHUTDOWN_S

`/stream?N` sends N pieces, one every 50 ms; ended early by the shutdown, it says so.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from inference.http_server.limits import Limits
from inference.http_server.server import Server
from tests.inference.http_server.applications import body_of, start

ending = threading.Event()


async def application(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
    await body_of(receive)
    await start(send)
    for _ in range(int(scope["query_string"])):
        await send({"type": "http.response.body", "body": b"piece\n", "more_body": True})
        await asyncio.sleep(0.05)
        if ending.is_set():
            await send({"type": "http.response.body", "body": b"ended\n", "more_body": True})
            break
    await send({"type": "http.response.body"})


def translate(error: BaseException) -> Any:
    name = type(error).__name__
    return SimpleNamespace(status=503, code=name, headers={}, body=name.encode())


if __name__ == "__main__":
    server = Server(
        application,
        "127.0.0.1",
        0,
        Limits(),
        translate,
        shutdown_s=float(sys.argv[1]),
        end_requests=ending.set,
        ready_callable=lambda: print(server.listening_addresses[0][1], flush=True),
    )
    server.run()
    print("stopped", flush=True)
