"""Server-sent events: framing, pings, and the response that owns what its stream needs.

Knows nothing about what the events say.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from django.http import StreamingHttpResponse

from inference.api.errors import is_expected, translate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import ExitStack

logger = logging.getLogger(__name__)

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
PING_INTERVAL_S = 15.0
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event(message: msgspec.Struct) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(message)


class EventFrame:
    """Events that differ in one text alone: the rest is encoded once, not for every token."""

    def __init__(self, message: msgspec.Struct, field: str) -> None:
        """`field` is the message's one field of that name, and empty in it."""
        # Within a JSON string its quotes would be escaped: this is the field, whatever texts there are.
        begun, empty, rest = event(message).partition(b'"%b":""' % field.encode())
        self._before, self._after = begun + empty.removesuffix(b'""'), rest

    def event(self, text: str) -> bytes:
        return b"%b%b%b" % (self._before, msgspec.json.encode(text), self._after)


class EventStream(StreamingHttpResponse):
    """Begun before it is made: an error before the first event is still an HTTP status."""

    def __init__(self, events: AsyncIterator[bytes], first: bytes, request_id: str) -> None:
        self.events = _guarded(events, first, request_id)
        super().__init__(self.events, content_type="text/event-stream", headers=_HEADERS)
        self._held: ExitStack | None = None

    def own(self, held: ExitStack) -> None:
        """Take over what the request holds, until this response is closed."""
        self._held = held

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
        super().close()

    @classmethod
    async def begin(cls, events: AsyncIterator[bytes], request_id: str) -> EventStream:
        """Wait for the first event, then answer. Raises: whatever prevents the first event."""
        return cls(events, await anext(events), request_id)


async def _guarded(
    events: AsyncIterator[bytes], first: bytes, request_id: str
) -> AsyncGenerator[bytes, None]:
    """The events; a failure among them becomes an event too, since the status has been sent."""
    yield first
    try:
        async for each in events:
            yield each
    except Exception as error:
        if not is_expected(error):
            logger.error("Stream %s failed.", request_id, exc_info=error)
        yield event(translate(error).envelope)
    yield DONE
