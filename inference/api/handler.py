"""Django's ASGI handler, with a short way for requests of the inference API.

Owns how such a request is run and given up. Django's way crosses to a thread before and after each
request, for signals that close database connections; those requests have none, and a thread a
request is most of what a short one costs.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.urls import set_script_prefix

from inference.api.middleware import is_inference_path
from inference.api.sse import EventStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Receive = Callable[[], Awaitable[Mapping[str, Any]]]
    Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class ApiHandler(ASGIHandler):
    async def handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if not is_inference_path(scope["path"]):
            await super().handle(scope, receive, send)
            return
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            if request is not None:
                await self._answer_while_wanted(request, receive, send)
            elif refusal is not None:
                await self.send_response(refusal, send)

    async def _answer_while_wanted(
        self, request: ASGIRequest, receive: Receive, send: Send
    ) -> None:
        """Cancelled, and waited for, when the client leaves or the server gives it up."""
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        answering = asyncio.ensure_future(self._answer(request, send))
        try:
            await asyncio.wait((leaving, answering), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            answering.cancel()
            await asyncio.gather(leaving, answering, return_exceptions=True)
        if not answering.cancelled():
            answering.result()

    async def _answer(self, request: ASGIRequest, send: Send) -> None:
        response = await self.run_get_response(request)
        try:
            if isinstance(response, EventStream):
                await _send_events(response, send)
            else:
                await self.send_response(response, send)
        finally:
            response.close()


async def _send_events(response: EventStream, send: Send) -> None:
    """What Django does, without cutting up and copying events that are short and bytes already."""
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    async with aclosing(response.events) as events:
        async for each in events:
            await send({"type": "http.response.body", "body": each, "more_body": True})
    await send({"type": "http.response.body"})
