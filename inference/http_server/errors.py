"""What the server refuses before the application sees it. Knows nothing about the form of the answer."""

from __future__ import annotations


class HttpError(Exception):
    """A request, or a connection, that is not served."""


class MalformedRequest(HttpError):
    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"The HTTP request is malformed: {why}.")


class HeadersTooLarge(HttpError):
    def __init__(self, limit: int, unit: str) -> None:
        self.limit, self.unit = limit, unit
        super().__init__(f"The request line and headers are more than {limit} {unit}.")


class BodyTooLarge(HttpError):
    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(f"The request body is larger than {limit_bytes} bytes.")


class TooManyBodies(HttpError):
    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(
            f"The bodies of unanswered requests fill the {limit_bytes} bytes there are; retry shortly."
        )


class RequestTooSlow(HttpError):
    def __init__(self, part: str, deadline_s: float) -> None:
        self.part, self.deadline_s = part, deadline_s
        super().__init__(f"The request's {part} did not arrive within {deadline_s:g} s.")


class TooManyConnections(HttpError):
    def __init__(self, limit: int) -> None:
        self.limit = limit
        connections = "1 connection" if limit == 1 else f"{limit} connections"
        super().__init__(f"The server already has its {connections}; retry shortly.")


class ShuttingDown(HttpError):
    def __init__(self) -> None:
        super().__init__("The server is shutting down; retry shortly.")
