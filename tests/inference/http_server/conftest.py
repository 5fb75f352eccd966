"""Small applications under servers with short limits, and sockets to ask them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inference.http_server.limits import Limits
from tests.fakes.live_server import LiveServer, listening
from tests.inference.http_server.applications import echo

Serve = Callable[..., LiveServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(application, **limits)`: a server that is closed to new connections after the test."""
    from twisted.internet import reactor

    made = []

    def start(application: Any = echo, **limits: Any) -> LiveServer:
        server = listening(application, Limits(**limits))
        made.append(server)
        return LiveServer(*server.listening_addresses[0])

    yield start
    for server in made:
        for port in server._ports:
            reactor.callFromThread(port.stopListening)
