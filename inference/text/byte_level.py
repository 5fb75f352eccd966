"""Byte-level BPE: words of text to token ids, and tokens back to the bytes they stand for.

Merging is done by Hugging Face's `tokenizers`; special tokens are none of its business here.
Source: Radford et al. 2019 (GPT-2), §2.2; its released encoder's table of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tokenizers
from tokenizers import models, pre_tokenizers

from inference.text.pre_tokenizers import pre_tokenizer

if TYPE_CHECKING:
    from inference.text.vocabulary import Vocabulary


def _byte_by_character() -> dict[str, int]:
    """GPT-2's printable stand-ins: printable Latin-1 bytes are themselves, the rest follow U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + i): byte for i, byte in enumerate(others)})
    return table


_BYTES = _byte_by_character()


class ByteLevelBPE:
    """Encoder of a "gpt2" vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        pre = pre_tokenizer(vocabulary.pre)
        model = models.BPE(
            dict(vocabulary.ids), list(vocabulary.merges), ignore_merges=pre.whole_words
        )
        self._tokenizer = tokenizers.Tokenizer(model)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                *(
                    pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
                    for pattern in pre.patterns
                ),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    @staticmethod
    def token_bytes(token: str) -> bytes:
        """A character outside the table stands for itself: such tokens exist in added vocabulary."""
        return b"".join(
            bytes((_BYTES[char],)) if char in _BYTES else char.encode() for char in token
        )
