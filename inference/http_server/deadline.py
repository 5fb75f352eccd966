"""One moment by which something must have happened. Knows nothing about what."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Deadline:
    """At most one call is pending; setting it anew forgets the one before."""

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._call: IDelayedCall | None = None

    def set(self, after_s: float, act: Callable[[], object]) -> None:
        self.clear()
        self._call = self._reactor.callLater(after_s, self._expire, act)

    def clear(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _expire(self, act: Callable[[], object]) -> None:
        self._call = None
        act()
