"""What the request being answered holds until it is over: leases and token streams.

Owns one context variable. Knows nothing about what is held.
"""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar

# Set by the middleware, and closed by it if the request ends in an answer in one piece, a refusal or a
# cancellation. An event stream takes it over and closes it when Django closes the response. There is no
# other place where a request ends, so nothing leaks from a stream that was never begun.
held: ContextVar[ExitStack] = ContextVar("pantheon_held")
