"""Stop strings in text that arrives piece by piece: what may be shown, and where the text ends.

Owns the held-back end of the text, which may be the beginning of a stop string. Knows no tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class StopMatcher:
    """The text ends before the stop string that begins first; of two at one place `hit` is the longer.

    However the text is cut into pushes, the same text comes out: as long as a stop string may have
    begun before one that is complete, neither is decided.
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
        if self._find_hit(text, open_at):
            return text[: self._cut(text)]
        self._held = text[open_at:]
        return text[:open_at]

    def flush(self) -> str:
        """What is left at the end of the text, when nothing more can complete a stop string."""
        text, self._held = self._held, ""
        if self.hit is None and self._find_hit(text, len(text)):
            return text[: self._cut(text)]
        return text

    def _find_open(self, text: str) -> int:
        """Where the longest end of the text begins that could be the beginning of a stop string."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start:] in self._beginnings:
                return start
        return len(text)

    def _find_hit(self, text: str, before: int) -> bool:
        """Whether a stop string begins no later than at `before`; sets `hit`."""
        found = [(start, -len(stop), stop) for stop in self._stops if (start := text.find(stop)) >= 0]
        if not found or min(found)[0] > before:
            return False
        self.hit = min(found)[2]
        self._held = ""
        return True

    def _cut(self, text: str) -> int:
        assert self.hit is not None
        return text.find(self.hit)
