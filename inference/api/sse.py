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
    from collections.abc import AsyncIterator
    from contextlib import ExitStack

logger = logging.getLogger(__name__)

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
PING_INTERVAL_S = 15.0
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event(message: msgspec.Struct) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(message)


class EventStream(StreamingHttpResponse):
    """Begun before it is made: an error before the first event is still an HTTP status."""

    def __init__(self, events: AsyncIterator[bytes], first: bytes, request_id: str) -> None:
        super().__init__(
            _guarded(events, first, request_id), content_type="text/event-stream", headers=_HEADERS
        )
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
) -> AsyncIterator[bytes]:
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
