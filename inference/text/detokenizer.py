"""Tokens to text while they arrive: only whole characters are given out.

Owns the bytes of a character that is not complete yet. Knows nothing about stop strings or channels.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference.text.tokenizer import Tokenizer

_utf8_decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """One text's detokenizer. All pushes and the flush, joined, are `Tokenizer.decode` of all ids.

    starts_text: the ids begin a text rather than continue a prompt, so that a space which encoding
    put before it is removed. A completion keeps it: prompt and completion are joined as they are.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, special: bool = False, starts_text: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._drop_space = starts_text and tokenizer.add_space_prefix
        self._decoder = _utf8_decoder(errors="replace")

    def push(self, id_: int) -> str:
        """The characters this id completes; often none."""
        raw = self._tokenizer.token_bytes(id_, special=self._special)
        if self._drop_space and raw:
            self._drop_space = False
            raw = raw.removeprefix(b" ")
        return self._decoder.decode(raw)

    def flush(self) -> str:
        """What is left at the end: U+FFFD for a character that was never completed."""
        return self._decoder.decode(b"", final=True)
