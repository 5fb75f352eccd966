"""One request on its way to the application, and the answer back. Knows nothing about connections' ends.

Daphne's own, with a counted body and errors in the application's form.
"""

from __future__ import annotations

import re
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

from daphne.http_protocol import WebRequest

from inference.http_server.errors import MalformedRequest
from inference.http_server.refusal import refusal_headers

if TYPE_CHECKING:
    from inference.http_server.channel import Connection

# As a client writes it for a proxy (RFC 9112, 3.2.2). Its host counts, whatever a header says.
_ABSOLUTE_FORM = re.compile(rb"https?://(?P<host>[^/]*)(?P<path>/.*)?", re.IGNORECASE | re.DOTALL)


class Request(WebRequest):  # type: ignore[misc]  # daphne is untyped
    channel: Connection
    path: bytes

    def __init__(self, channel: Connection, queued: bool = False) -> None:
        # Forms are the application's to parse, off the event loop.
        super().__init__(channel, queued, parsePOSTFormSubmission=False)
        self._num_body_pieces = 0

    def process(self) -> None:
        # HTTP lets a server ignore it. The application speaks no WebSocket; daphne would start one.
        self.requestHeaders.removeHeader(b"Upgrade")
        if target := _ABSOLUTE_FORM.fullmatch(self.path):
            self.requestHeaders.setRawHeaders(b"Host", [target["host"]])
            self.path = target["path"] or b"/"
        super().process()

    def gotLength(self, length: int | None) -> None:
        # Closed by the request's own end, whichever it is.
        self.content = SpooledTemporaryFile(  # noqa: SIM115
            max_size=self.channel.limits.max_body_memory_bytes
        )

    def handleContentChunk(self, data: bytes) -> None:
        channel = self.channel
        self._num_body_pieces += 1
        if channel.length is None and self._num_body_pieces > channel.limits.max_body_pieces:
            channel.refuse(MalformedRequest("its body comes in too many chunks"))
        if not channel.is_refused:
            channel.count_body(len(data))
        if not channel.is_refused:
            super().handleContentChunk(data)

    def handle_reply(self, message: dict[str, Any]) -> None:
        super().handle_reply(message)
        if message["type"] == "http.response.start" and self.is_last_of_connection:
            self.setHeader(b"connection", b"close")

    @property
    def is_within_body(self) -> bool:
        """Its headers are on their way, its client is there, and its last piece has not been given."""
        return bool(self.startedWriting and not self.finished and not self._disconnected)

    def write(self, data: bytes) -> None:
        if data and self.chunked and self.is_within_body:
            self.sentLength += len(data)
            self.channel.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            super().write(data)

    @property
    def is_last_of_connection(self) -> bool:
        channel = getattr(self, "channel", None)
        return channel is not None and not channel.persistent

    def handle_exception(self, exception: BaseException) -> None:
        """The application failed. An answer that has begun can only be cut off."""
        if not self._response_started:
            super().handle_exception(exception)
        elif self.channel is not None:
            self.channel.transport.abortConnection()

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """In place of daphne's page for browsers."""
        error = MalformedRequest(body.lower()) if status < 500 else RuntimeError(body)
        failure, request_id = self.server.http_factory.refused(error, self.client.host)
        headers = [
            (name.encode("ascii"), value.encode("ascii"))
            for name, value in refusal_headers(failure, request_id).items()
        ]
        start = {"type": "http.response.start", "status": failure.status, "headers": headers}
        self.handle_reply(start)
        self.handle_reply({"type": "http.response.body", "body": failure.body})
