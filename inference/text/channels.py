"""Splitting a model's text into its channels: what it thought, and what it answers.

Knows the `<think>` convention alone. Whitespace around the markers belongs to neither channel.
"""

from __future__ import annotations

from enum import Enum, auto

OPEN, CLOSE = "<think>", "</think>"

CONTENT, REASONING = "content", "reasoning"


class _State(Enum):
    START = auto()  # nothing but white space so far: a marker may still open the reasoning
    REASONING_START = auto()  # right after the opening marker
    REASONING = auto()
    CONTENT_START = auto()  # right after the closing marker
    CONTENT = auto()


class ChannelSplitter:
    """Reasoning is what lies between `<think>`, as the first thing in the text, and `</think>`.

    Later markers are content like any other text: an answer may speak of them.
    starts_in_reasoning: the prompt already ended with the opening marker.
    """

    def __init__(self, starts_in_reasoning: bool) -> None:
        self._state = _State.REASONING_START if starts_in_reasoning else _State.START
        self._held = ""

    def push(self, text: str) -> list[tuple[str, str]]:
        """(channel, text) of what is decided; never an empty text."""
        if self._state is _State.CONTENT:
            return [(CONTENT, text)] if text else []
        self._held += text
        pieces: list[tuple[str, str]] = []
        while self._held and self._step(pieces):
            pass
        return pieces

    def flush(self) -> list[tuple[str, str]]:
        """What was held back at the end of the text."""
        text, self._held = self._held, ""
        channel = REASONING if self._state in _IN_REASONING else CONTENT
        if self._state in (_State.REASONING_START, _State.CONTENT_START):
            text = text.lstrip()
        return [(channel, text)] if text else []

    def _step(self, pieces: list[tuple[str, str]]) -> bool:
        """Take what can be decided off the held text; False when more is needed."""
        match self._state:
            case _State.START:
                return self._open()
            case _State.REASONING_START | _State.CONTENT_START:
                self._held = self._held.lstrip()
                if self._held:
                    in_reasoning = self._state is _State.REASONING_START
                    self._state = _State.REASONING if in_reasoning else _State.CONTENT
                return bool(self._held)
            case _State.REASONING:
                return self._read_reasoning(pieces)
            case _State.CONTENT:
                pieces.append((CONTENT, self._held))
                self._held = ""
                return False

    def _open(self) -> bool:
        stripped = self._held.lstrip()
        if stripped.startswith(OPEN):
            self._held = stripped.removeprefix(OPEN)
            self._state = _State.REASONING_START
            return True
        if OPEN.startswith(stripped):
            return False
        self._state = _State.CONTENT
        return True

    def _read_reasoning(self, pieces: list[tuple[str, str]]) -> bool:
        reasoning, closed, rest = self._held.partition(CLOSE)
        if closed:
            self._state = _State.CONTENT_START
            self._held = rest
            reasoning = reasoning.rstrip()
        else:
            # White space is held too: should the marker follow, it belongs to neither channel.
            shown = len(reasoning) - _open_marker_len(reasoning)
            shown = len(reasoning[:shown].rstrip())
            reasoning, self._held = reasoning[:shown], reasoning[shown:]
        if reasoning:
            pieces.append((REASONING, reasoning))
        return bool(closed)


_IN_REASONING = (_State.REASONING_START, _State.REASONING)


def _open_marker_len(text: str) -> int:
    """The length of the longest end of `text` that begins the closing marker."""
    return next((n for n in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:n])), 0)
