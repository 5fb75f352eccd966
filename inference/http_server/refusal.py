"""The bytes of an answer that the server gives by itself, and its line in the log.

Their envelope is the application's, so that a client sees one form of error whoever found it.
Knows nothing about what is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol


class Failure(Protocol):
    """An error as the application would answer it."""

    @property
    def status(self) -> int: ...

    @property
    def code(self) -> str: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> bytes: ...


Translate = Callable[[BaseException], Failure]


def new_request_id() -> str:
    return f"req_{secrets.token_hex(16)}"


def refusal_line(failure: Failure, error: BaseException, peer: str, request_id: str) -> str:
    """As the application's own: `408 Request Timeout: 10.0.0.7 (request_timeout, request req_…): …`"""
    status = HTTPStatus(failure.status)
    named = f"{failure.code}, request {request_id}"
    return f"{status.value} {status.phrase}: {peer} ({named}): {error}"


def refusal_headers(failure: Failure, request_id: str) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Content-Length": str(len(failure.body)),
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "x-request-id, Retry-After, x-should-retry",
        "x-request-id": request_id,
        **failure.headers,
    }


def refusal_bytes(failure: Failure, request_id: str) -> bytes:
    """A whole answer, the last of its connection."""
    headers = refusal_headers(failure, request_id) | {"Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    status = HTTPStatus(failure.status)
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode("ascii") + failure.body
