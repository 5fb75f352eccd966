"""All connections: how many there may be, and which are open. Knows nothing about what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daphne.http_protocol import HTTPFactory

from inference.http_server.channel import Connection
from inference.http_server.errors import TooManyConnections
from inference.http_server.refusal import new_request_id, refusal_line
from inference.http_server.refusal_log import RefusalLog
from inference.http_server.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from inference.http_server.errors import HttpError
    from inference.http_server.limits import Limits
    from inference.http_server.refusal import Failure, Translate


class ConnectionFactory(HTTPFactory):  # type: ignore[misc]  # daphne is untyped
    """`on_closed` is called after each connection's end."""

    def __init__(
        self, server: Any, limits: Limits, translate: Translate, on_closed: Callable[[], None]
    ) -> None:
        super().__init__(server)
        self.limits, self.translate, self._on_closed = limits, translate, on_closed
        self.connections: set[Connection] = set()
        self.is_open = True  # to new connections
        self.num_body_bytes = 0  # of requests that are not answered yet
        self._num_refused = 0
        self.refusals = RefusalLog(self.reactor)

    def buildProtocol(self, addr: Any) -> Connection | None:
        refusal: HttpError | None = None
        if not self.is_open:
            return None
        if len(self.connections) >= self.limits.max_connections:
            refusal = TooManyConnections(self.limits.max_connections)
            if self._num_refused >= self.limits.max_refused_connections:
                line = f"Closed without an answer: {addr.host} (too many are being refused)"
                self.refusals.record("closed without an answer", line)
                return None
        connection = Connection(self, refusal)
        connection.requestFactory = Request
        connection.callLater = self.reactor.callLater
        connection.timeOut = None
        return connection

    def opened(self, connection: Connection) -> None:
        if connection.is_turned_away:
            self._num_refused += 1
        else:
            self.connections.add(connection)

    def closed(self, connection: Connection) -> None:
        if connection.is_turned_away:
            self._num_refused -= 1
        self.connections.discard(connection)
        self._on_closed()

    def refused(self, error: BaseException, peer: str) -> tuple[Failure, str]:
        """Logged: the failure to answer with, and the id by which its line names the request."""
        failure, request_id = self.translate(error), new_request_id()
        self.refusals.record(failure.code, refusal_line(failure, error, peer, request_id))
        return failure, request_id

    def log(self, request: Any) -> None:
        """Nothing: the application logs its requests itself."""
