"""When nothing has come for a while. Knows nothing about what is waited for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class IdleTimes:
    """Calls `mark` on the event loop whenever `after_s` went by without news. Context manager.

    News only leave their time: a timer set anew for each costs more than the news.
    """

    def __init__(self, after_s: float, mark: Callable[[], None]) -> None:
        self._after_s, self._mark = after_s, mark
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> IdleTimes:
        self.news()
        self._timer = self._loop.call_later(self._after_s, self._look)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._timer.cancel()

    def news(self) -> None:
        self._last_s = self._loop.time()

    def _look(self) -> None:
        if self._loop.time() - self._last_s >= self._after_s:
            self.news()
            self._mark()
        self._timer = self._loop.call_at(self._last_s + self._after_s, self._look)
