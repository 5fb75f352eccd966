"""The outermost middleware: request ids, CORS, and the short way for requests of the API.

Owns what every answer carries and that an API path always answers in the API's form. Knows nothing
about what the views do.
"""

from __future__ import annotations

import logging
import re
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec
from asgiref.sync import markcoroutinefunction
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpResponse
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.log import log_response

from inference.api.auth import presented_key
from inference.api.errors import (
    BadHost,
    Failure,
    MissingApiKey,
    UnknownRoute,
    is_expected,
    of_status,
    translate,
)
from inference.api.held import held
from inference.api.metrics import HTTP_REQUESTS
from inference.api.sse import EventStream
from registry.services import current_request_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

logger = logging.getLogger(__name__)

URLS = "inference.api.urls"
_BROWSERS_PATHS = ("/admin", "/static/")  # what does not exist elsewhere was asked for by a client
CLIENT_LEFT = 499  # counted, never sent; nginx made the number known
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SANE_HEADER_LIST = re.compile(r"[A-Za-z0-9_, -]{1,2048}")
_DEFAULT_HEADER_LIST = "Authorization, Content-Type, X-Api-Key, X-Request-Id, X-Session-Id"


class ErrorResponse(HttpResponse):
    """A failure as the API answers it; `code` is for the log."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            failure.body,
            status=failure.status,
            content_type="application/json",
            headers=dict(failure.headers),
        )
        self.code = failure.code


class ApiMiddleware:
    """API requests go straight to their view.

    The middleware of the admin site is for browsers, and each of its hooks is one more trip to a
    thread, where a request that is cancelled between view and answer would lose its response. Control
    requests without a key do take the long way: they need the session and the CSRF check.
    """

    sync_capable = False
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> None:
        self._get_response = get_response
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        offered = request.headers.get("X-Request-Id", "")
        request_id = offered if _SANE_ID.fullmatch(offered) else f"req_{secrets.token_hex(16)}"
        current_request_id.set(request_id)
        match = _match(request.path_info)
        status = CLIENT_LEFT
        try:
            response = await self._answer(request, match)
            status = response.status_code
        finally:
            route = match.route if match is not None else "other"
            HTTP_REQUESTS.labels(route, str(status)).inc()
        response["x-request-id"] = request_id
        if isinstance(response, ErrorResponse):
            _log(request, response)
        return response

    async def _answer(self, request: HttpRequest, match: ResolverMatch | None) -> HttpResponseBase:
        if request.method == "OPTIONS":
            return _preflight(request)
        if match is None and request.path_info.startswith(_BROWSERS_PATHS):
            return await self._get_response(request)
        response = await self._answer_api(request, match)
        _allow_any_origin(response)
        response["X-Content-Type-Options"] = "nosniff"
        return response

    async def _answer_api(
        self, request: HttpRequest, match: ResolverMatch | None
    ) -> HttpResponseBase:
        holding = ExitStack()
        held.set(holding)
        try:
            response = await self._call_view(request, match)
        except Exception as error:  # noqa: BLE001  the boundary: every failure becomes an answer
            response = error_response(error)
        except BaseException:  # cancelled: the client is gone
            holding.close()
            raise
        if isinstance(response, EventStream):
            response.own(holding)
            return response
        holding.close()
        if response.status_code >= 400 and not _is_json(response):
            response = ErrorResponse(of_status(response.status_code))
        if isinstance(response, HttpResponse):
            response["Content-Length"] = str(len(response.content))
        return response

    async def _call_view(
        self, request: HttpRequest, match: ResolverMatch | None
    ) -> HttpResponseBase:
        if match is None:
            raise UnknownRoute(request.path)
        try:
            request.get_host()
        except DisallowedHost as error:
            raise BadHost from error
        if request.path_info.startswith("/admin/") and presented_key(request) is None:
            if settings.SESSION_COOKIE_NAME not in request.COOKIES:
                raise MissingApiKey
            return await self._get_response(request)
        view: Callable[..., Awaitable[HttpResponseBase]] = match.func
        return await view(request, **match.kwargs)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Errors of control views that were reached the long way."""
        return error_response(error) if _match(request.path_info) else None


def _log(request: HttpRequest, response: ErrorResponse) -> None:
    """In place of Django's own line, which knows only the status."""
    log_response(
        "%s: %s (%s, request %s)",
        response.reason_phrase,
        request.path,
        response.code,
        current_request_id.get(),
        response=response,
        request=request,
    )


def is_inference_path(path: str) -> bool:
    """A route of the API that needs no login, or one that does not exist below /v1."""
    if _is_below_v1(path):
        return True
    return path != "/" and not path.startswith("/admin/") and _match(path) is not None


def error_response(error: BaseException) -> HttpResponse:
    """The answer to a failed request; errors nobody foresaw are logged."""
    if not is_expected(error):
        logger.error("Request %s failed.", current_request_id.get(), exc_info=error)
    return ErrorResponse(translate(error))


def _match(path: str) -> ResolverMatch | None:
    try:
        return resolve(path, URLS)
    except Resolver404:
        return None


def _is_below_v1(path: str) -> bool:
    return path == "/v1" or path.startswith("/v1/")


def _is_json(response: HttpResponseBase) -> bool:
    return response.headers.get("Content-Type", "").startswith("application/json")


def _allow_any_origin(response: HttpResponseBase) -> None:
    # Without Allow-Credentials: other sites' pages can send a key they know, never a user's cookie.
    response["Access-Control-Allow-Origin"] = "*"
    response["Access-Control-Expose-Headers"] = "x-request-id, Retry-After, x-should-retry"


def _preflight(request: HttpRequest) -> HttpResponse:
    response = HttpResponse(msgspec.json.encode({}), content_type="application/json")
    _allow_any_origin(response)
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    sane = _SANE_HEADER_LIST.fullmatch(wanted) is not None
    response["Access-Control-Allow-Methods"] = "GET, POST, OPTIONS"
    response["Access-Control-Allow-Headers"] = wanted if sane else _DEFAULT_HEADER_LIST
    response["Access-Control-Max-Age"] = "86400"
    return response
