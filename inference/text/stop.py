"""Stop strings in text that arrives piece by piece: what may be shown, and where the text ends.

Owns the held-back end of the text, which may be the beginning of a stop string. Knows no tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class StopMatcher:
    """The text ends before the stop string that begins first; of two at one place `hit` is the longer.

    However the text is cut into pushes, the same text comes out: as long as one stop string may have
    begun before another that is complete, neither is decided.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._beginnings = {stop[:n] for stop in self._stops for n in range(1, len(stop))}
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.hit: str | None = None

    def push(self, text: str) -> str:
        """The text that is now safe to show. "" for all that comes after a hit."""
        if not self._stops:
            return text
        if self.hit is not None:
            return ""
        text = self._held + text
        open_at = self._find_open(text)
        shown = self._find_end(text, before=open_at)
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """What is left at the end of the text, when nothing more can complete a stop string."""
        if self.hit is not None:
            return ""
        text, self._held = self._held, ""
        return text[: self._find_end(text, before=len(text))]

    def _find_open(self, text: str) -> int:
        """Where the longest end of the text begins that could be the beginning of a stop string."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start:] in self._beginnings:
                return start
        return len(text)

    def _find_end(self, text: str, before: int) -> int:
        """Where a stop string begins, which becomes the hit, or `before` if none begins up to there."""
        found = [(text.find(stop), -len(stop), stop) for stop in self._stops if stop in text]
        if not found or min(found)[0] > before:
            return before
        start, _, self.hit = min(found)
        return start
