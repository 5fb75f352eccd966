"""Cutting special tokens out of a text. Knows their texts and nothing about what lies between them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from inference.text.errors import TextError
from inference.text.vocabulary import TokenKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from inference.text.vocabulary import Vocabulary

MAX_SPECIAL_LEN = 1024
_WHITE_SPACE = " \t\n\v\f\r"


class SpecialTokens:
    """Finds special tokens: from left to right, the longest at each place.

    User-defined tokens are always cut out; control tokens only when asked, so that a user's text
    cannot fake a turn of the conversation.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        user = vocabulary.of_kinds(TokenKind.USER_DEFINED)
        control = vocabulary.of_kinds(TokenKind.CONTROL, TokenKind.UNKNOWN)
        self._always = _Matcher(user)
        self._all = _Matcher({**user, **control})
        self._rstrip_ids = vocabulary.rstrip_ids

    def split(self, text: str, *, control: bool) -> Iterator[int | str]:
        """The text as ids of special tokens and non-empty pieces of ordinary text."""
        start = 0
        for begin, end, id_ in (self._all if control else self._always).find(text):
            if start < begin:
                yield text[start:begin]
            yield id_
            start = end
            if id_ in self._rstrip_ids:
                while start < len(text) and text[start] in _WHITE_SPACE:
                    start += 1
        if start < len(text):
            yield text[start:]


class _Matcher:
    """Leftmost-longest search: candidate places by first character, then lengths, longest first."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = ids
        lengths: dict[str, set[int]] = {}
        for text in ids:
            if len(text) > MAX_SPECIAL_LEN:
                raise TextError(
                    "tokenizer.ggml.tokens",
                    f"a special token has {len(text)} characters; at most {MAX_SPECIAL_LEN} can be used",
                )
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._first = re.compile("[" + "".join(map(re.escape, lengths)) + "]") if lengths else None

    def find(self, text: str) -> Iterator[tuple[int, int, int]]:
        """(begin, end, id) of each special token in the text."""
        if self._first is None:
            return
        past = 0
        for candidate in self._first.finditer(text):
            begin = candidate.start()
            if begin < past:
                continue
            for length in self._lengths[text[begin]]:
                id_ = self._ids.get(text[begin : begin + length])
                # A slice at the text's end may be shorter than asked, and is then found again below.
                if id_ is not None and begin + length <= len(text):
                    past = begin + length
                    yield begin, past, id_
                    break
