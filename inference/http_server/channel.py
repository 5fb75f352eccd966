"""One connection: its deadlines, its limits, and the pause when its client does not read.

Owns what may be refused while a request is still arriving, and how: the answer, then half a close, so
that a client that is still sending comes to read it. Knows nothing about the application.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from twisted.web import http

from inference.http_server.deadline import Deadline
from inference.http_server.errors import (
    BodyTooLarge,
    HeadersTooLarge,
    MalformedRequest,
    RequestTooSlow,
    ShuttingDown,
    TooManyBodies,
)
from inference.http_server.refusal import refusal_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inference.http_server.errors import HttpError
    from inference.http_server.factory import ConnectionFactory

_MAX_LENGTH_DIGITS = 18
_TLS_HANDSHAKE = b"\x16"  # the first byte, which no request line begins with


class Connection(http.HTTPChannel):  # type: ignore[misc]  # Twisted is followed no further
    """Between two requests, in a request's headers, in its body, with the application, or refused."""

    factory: ConnectionFactory
    # Counted here instead, for an answer that says what was too much.
    maxHeaders = totalHeadersSize = 1 << 30

    def __init__(self, factory: ConnectionFactory, refusal: HttpError | None = None) -> None:
        """With a `refusal` the client is told so and nothing else happens."""
        super().__init__()
        self.factory, self.limits, self._refusal = factory, factory.limits, refusal
        self.is_turned_away = refusal is not None
        self.MAX_LENGTH = self.limits.max_header_bytes
        self._arrival = Deadline(factory.reactor)  # of the next part of a request
        self._stall = Deadline(factory.reactor)
        self._is_idle = True  # nothing of the next request has come
        self.is_refused = False
        self._num_body_bytes = 0  # of the request that arrives or is with the application
        self._num_at_once = 0  # bytes written since the others last had a turn
        self.writable = asyncio.Event()
        self.writable.set()

    # ---- its life -----------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        super().connectionMade()
        self.transport.bufferSize = self.limits.write_buffer_bytes
        handle = self.transport.getHandle()
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self.limits.unsent_bytes)
        self.factory.opened(self)
        if self._refusal is not None:
            self.refuse(self._refusal)
        else:
            self._arrival.set(self.limits.header_deadline_s, self.loseConnection)

    def connectionLost(self, reason: Any) -> None:
        self._arrival.clear()
        self._stall.clear()
        self.writable.set()
        self._forget_body()
        super().connectionLost(reason)
        self.factory.closed(self)

    def loseConnection(self) -> None:
        """Close after what is still to be written, if the client takes it in time."""
        self._arrival.clear()
        self._stall.set(self.limits.stall_s, self.transport.abortConnection)
        super().loseConnection()

    def refuse(self, error: HttpError) -> None:
        """Answer whatever was being received with an error, and receive no more."""
        if self.is_refused:
            return
        self.is_refused = True
        self._networkProducer.unregisterProducer()
        failure, request_id = self.factory.refused(error, self.transport.getPeer().host)
        self.transport.write(refusal_bytes(failure, request_id))
        self.transport.loseWriteConnection()
        self.transport.resumeProducing()
        self._arrival.set(self.limits.linger_s, self.transport.abortConnection)

    def drain(self) -> bool:
        """Finish the request that the application has, take no other; whether it has one."""
        if self._handlingRequest:
            self.persistent = 0
            return True
        if self._is_idle:
            self.loseConnection()
        else:
            self.refuse(ShuttingDown())
        return False

    # ---- a request arrives --------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        if self.is_refused:
            return
        if self._is_idle:
            self._is_idle = False
            self._expect("headers", self.limits.header_deadline_s)
            if data.startswith(_TLS_HANDSHAKE):
                self.refuse(MalformedRequest("it is encrypted; its URL must begin with http://"))
                return
        super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:
        if self.is_refused:
            return
        if self._receivedHeaderSize + len(line) > self.limits.max_header_bytes:
            self.refuse(HeadersTooLarge(self.limits.max_header_bytes, "bytes"))
        else:
            super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        self.refuse(HeadersTooLarge(self.limits.max_header_bytes, "bytes"))

    def headerReceived(self, line: bytes) -> bool:
        if self.is_refused:
            return False
        if self._receivedHeaderCount >= self.limits.max_headers:
            self.refuse(HeadersTooLarge(self.limits.max_headers, "headers"))
            return False
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and len(value.strip()) > _MAX_LENGTH_DIGITS:
            self.refuse(BodyTooLarge(self.limits.max_body_bytes))
            return False
        received: bool = super().headerReceived(line)
        return received

    def allHeadersReceived(self) -> None:
        if self.is_refused:
            return
        if self.length is not None and self.length > self.limits.max_body_bytes:
            self.refuse(BodyTooLarge(self.limits.max_body_bytes))
            return
        self._expect("body", self.limits.body_deadline_s)
        super().allHeadersReceived()

    def rawDataReceived(self, data: bytes) -> None:
        if not self.is_refused:
            super().rawDataReceived(data)

    def allContentReceived(self) -> None:
        if not self.is_refused:
            self._arrival.clear()
            super().allContentReceived()

    def count_body(self, num_bytes: int) -> None:
        """More of the body has come. Refuses it if it, or all of them, are too much."""
        self._num_body_bytes += num_bytes
        self.factory.num_body_bytes += num_bytes
        if self._num_body_bytes > self.limits.max_body_bytes:
            self.refuse(BodyTooLarge(self.limits.max_body_bytes))
        elif self.factory.num_body_bytes > self.limits.max_bodies_bytes:
            self.refuse(TooManyBodies(self.limits.max_bodies_bytes))

    def _forget_body(self) -> None:
        self.factory.num_body_bytes -= self._num_body_bytes
        self._num_body_bytes = 0

    def requestDone(self, request: http.Request) -> None:
        self._forget_body()
        self._is_idle = True
        self._arrival.set(self.limits.idle_s, self.loseConnection)
        super().requestDone(request)

    def _expect(self, part: str, deadline_s: float) -> None:
        self._arrival.set(deadline_s, lambda: self.refuse(RequestTooSlow(part, deadline_s)))

    def _respondToBadRequestAndDisconnect(self) -> None:
        self.refuse(MalformedRequest("its request line, headers or framing break RFC 9112"))

    # ---- an answer leaves ---------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """At once, as far as the kernel takes it, if nothing waits to be written before it.

        The transport would wait for the event loop to say that the socket is writable: three more
        system calls, which cost a stream's piece of 200 bytes more than sending it does.
        """
        transport = self.transport
        if data and transport.connected and not (transport.dataBuffer or transport._tempDataLen):
            self._num_at_once += len(data)
            num_sent = transport.writeSomeData(data)
            if num_sent == len(data):
                return
            if isinstance(num_sent, int):
                data = data[num_sent:]
        # Also where the connection is lost: the event loop finds out, and ends it in good order.
        transport.write(data)

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        self.write(b"".join(iovec))

    def has_had_its_turn(self) -> bool:
        """So much was written at once that an application without an end must let others go on."""
        if self._num_at_once <= self.limits.write_buffer_bytes:
            return False
        self._num_at_once = 0
        return True

    def pauseProducing(self) -> None:
        """The client reads slower than it is written to. Reading goes on, to notice when it leaves."""
        super().pauseProducing()
        self.writable.clear()
        self._stall.set(self.limits.stall_s, self.transport.abortConnection)

    def resumeProducing(self) -> None:
        super().resumeProducing()
        self.writable.set()
        self._stall.clear()
