"""The tokenizer of a model: text to token ids and ids to bytes.

Joins the vocabulary, its special tokens and the encoder its type needs. Knows nothing about chats;
text that arrives token by token is for `detokenizer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.text.byte_level import ByteLevelBPE
from inference.text.char_merges import CharMergeBPE
from inference.text.special_tokens import SpecialTokens
from inference.text.vocabulary import TokenKind, read_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from inference.text.vocabulary import Vocabulary

_SPECIAL_KINDS = (TokenKind.CONTROL, TokenKind.UNKNOWN)


class Tokenizer:
    """Thread-safe. Equal to llama.cpp's tokenizer on the same vocabulary, special tokens included."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        # Not the whole vocabulary: merges and scores are for the encoder, which keeps what it needs.
        self._tokens, self._kinds = vocabulary.tokens, vocabulary.kinds
        self._encoder = (
            ByteLevelBPE(vocabulary) if vocabulary.model == "gpt2" else CharMergeBPE(vocabulary)
        )
        self._special_tokens = SpecialTokens(vocabulary)
        self._bytes: dict[int, bytes] = {}
        self.vocab_size = len(vocabulary.tokens)
        self.bos_id, self.eos_id = vocabulary.bos_id, vocabulary.eos_id
        self.end_ids = vocabulary.end_ids
        self.add_bos, self.add_eos = vocabulary.add_bos, vocabulary.add_eos
        self.add_space_prefix = vocabulary.add_space_prefix

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> Tokenizer:
        """Raises: TextError."""
        return cls(read_vocabulary(metadata))

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """add_special: bos and eos as the model wants them. parse_special: control tokens written
        out in the text become those tokens; otherwise they are ordinary text."""
        ids: list[int] = []
        if add_special and self.add_bos and self.bos_id is not None:
            ids.append(self.bos_id)
        after_special = True
        for piece in self._special_tokens.split(_well_formed(text), control=parse_special):
            if isinstance(piece, int):
                ids.append(piece)
                after_special = True
            else:
                prefix = " " if self.add_space_prefix and after_special else ""
                ids += self._encoder.encode(prefix + piece)
                after_special = False
        if add_special and self.add_eos and self.eos_id is not None:
            ids.append(self.eos_id)
        return ids

    def token_text(self, id_: int | None) -> str:
        """The token as the vocabulary spells it; "" for None and for ids past the vocabulary."""
        return "" if id_ is None or not 0 <= id_ < self.vocab_size else self._tokens[id_]

    def token_bytes(self, id_: int, *, special: bool = False) -> bytes:
        """What the id adds to a text. Control tokens add nothing unless `special`.

        Ids past the vocabulary add nothing: a model's output may be wider than its vocabulary.
        """
        if not 0 <= id_ < self.vocab_size:
            return b""
        if not special and self._kinds[id_] in _SPECIAL_KINDS:
            return b""
        found = self._bytes.get(id_)
        if found is None:
            found = self._bytes[id_] = self._spell(id_)
        return found

    def decode(self, ids: Iterable[int], *, special: bool = False, starts_text: bool = True) -> str:
        """The text of the ids; bytes that are not UTF-8 become U+FFFD.

        starts_text: the ids begin a text, so a space that `encode` put before it is removed.
        """
        raw = b"".join(self.token_bytes(id_, special=special) for id_ in ids)
        if starts_text and self.add_space_prefix:
            raw = raw.removeprefix(b" ")
        return raw.decode(errors="replace")

    def _spell(self, id_: int) -> bytes:
        kind, text = self._kinds[id_], self._tokens[id_]
        if kind in (*_SPECIAL_KINDS, TokenKind.USER_DEFINED):
            return text.encode()
        if kind == TokenKind.BYTE:
            return bytes.fromhex(text[3:5])
        return self._encoder.token_bytes(text) if kind == TokenKind.NORMAL else b""


def _well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, so that it has UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
