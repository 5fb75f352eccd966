"""The bytes of an answer that the server gives by itself. Knows nothing about what is refused.

Their envelope is the application's, so that a client sees one form of error whoever found it.
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
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> bytes: ...


Translate = Callable[[BaseException], Failure]


def refusal_headers(failure: Failure) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Content-Length": str(len(failure.body)),
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "x-request-id, Retry-After, x-should-retry",
        "x-request-id": f"req_{secrets.token_hex(16)}",
        **failure.headers,
    }


def refusal_bytes(failure: Failure) -> bytes:
    """A whole answer, the last of its connection."""
    headers = refusal_headers(failure) | {"Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    status = HTTPStatus(failure.status)
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode("ascii") + failure.body
