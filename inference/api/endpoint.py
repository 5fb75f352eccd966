"""The methods a route answers to. Knows nothing about what the views do."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from inference.api.errors import MethodNotAllowed

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], Coroutine[Any, Any, HttpResponseBase]]


def endpoint(method: str) -> Callable[[View[P]], View[P]]:
    """Refuse other methods before the view sees them; GET includes HEAD."""
    allowed = ("GET", "HEAD") if method == "GET" else (method,)

    def wrap(view: View[P]) -> View[P]:
        @wraps(view)
        async def checked(
            request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponseBase:
            if request.method not in allowed:
                raise MethodNotAllowed(str(request.method), allowed)
            return await view(request, *args, **kwargs)

        return checked

    return wrap
