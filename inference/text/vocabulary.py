"""The vocabulary of a model file: its tokens, what kind each is, and the tokens that end a text.

Checks everything it reads, and knows nothing about cutting text into tokens.
Source: the GGUF specification, "Tokenizer"; the rules by name are those of llama.cpp's loader.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from inference.text import token_names
from inference.text.errors import TextError
from inference.text.metadata_fields import (
    MAX_TOKENS,
    read_bool,
    read_floats,
    read_ints,
    read_str,
    read_strings,
    read_token_id,
)
from inference.text.pre_tokenizers import pre_tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY = "tokenizer.ggml."
SUPPORTED = ("gpt2", "llama", "gemma4")

_END_KEYS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class TokenKind(IntEnum):
    """The values of `tokenizer.ggml.token_type`."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """model: the value of `tokenizer.ggml.model`; pre: the pre-tokenizer's name, for "gpt2".

    add_space_prefix: a text begins with a space that is not in it (SentencePiece).
    rstrip_ids: special tokens that swallow the white space after them.
    """

    model: str
    pre: str
    tokens: Sequence[str]
    kinds: Sequence[int]
    scores: Sequence[float]
    merges: Sequence[tuple[str, str]]
    ids: Mapping[str, int]
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None
    end_ids: frozenset[int]
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    rstrip_ids: frozenset[int]

    def of_kinds(self, *kinds: TokenKind) -> dict[str, int]:
        """Text and id of each token of these kinds."""
        wanted = {int(kind) for kind in kinds}
        return {self.tokens[i]: i for i, kind in enumerate(self.kinds) if kind in wanted}


def read_vocabulary(metadata: Mapping[str, object]) -> Vocabulary:
    """Raises: TextError, naming the metadata key, for anything malformed or unsupported."""
    model = read_str(metadata, KEY + "model", "")
    if model not in SUPPORTED:
        raise TextError(
            KEY + "model",
            f"the vocabulary type '{model}' is not supported; supported are {', '.join(SUPPORTED)}",
        )
    pre = read_str(metadata, KEY + "pre", "default") if model == "gpt2" else model
    tokens, ids = _read_tokens(metadata)
    kinds = _read_kinds(metadata, tokens)
    is_spm = model == "llama"

    bos_id = _read_special(metadata, "bos", len(tokens), 1 if is_spm else None)
    eos_id = _read_special(metadata, "eos", len(tokens), 2 if is_spm else None)
    add_bos = read_bool(
        metadata,
        KEY + "add_bos_token",
        default=pre_tokenizer(pre).add_bos if model == "gpt2" else True,
    )
    add_eos = read_bool(metadata, KEY + "add_eos_token", default=False)
    return Vocabulary(
        model=model,
        pre=pre,
        tokens=tokens,
        kinds=kinds,
        scores=read_floats(metadata, KEY + "scores", len(tokens))
        or array("d", bytes(8 * len(tokens))),
        merges=[] if is_spm else _read_merges(metadata, tokens, ids),
        ids=ids,
        bos_id=bos_id,
        eos_id=eos_id,
        unknown_id=_read_special(metadata, "unknown", len(tokens), 0 if is_spm else None),
        end_ids=_find_end_ids(metadata, ids, kinds, eos_id),
        # Gemma 4 files exist that deny the bos token which the model cannot do without.
        add_bos=(add_bos or model == "gemma4") and bos_id is not None,
        add_eos=add_eos and eos_id is not None,
        add_space_prefix=read_bool(metadata, KEY + "add_space_prefix", default=is_spm),
        rstrip_ids=_find_rstrip_ids(metadata, tokens, kinds),
    )


def _read_tokens(metadata: Mapping[str, object]) -> tuple[list[str], dict[str, int]]:
    key = KEY + "tokens"
    texts = read_strings(metadata, key)
    if not 0 < len(texts) <= MAX_TOKENS:
        raise TextError(key, f"has {len(texts)} entries; 1 to {MAX_TOKENS} can be used")
    tokens = [text or f"[EMPTY_{i}]" for i, text in enumerate(texts)]
    ids = {text: i for i, text in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(i for i, text in enumerate(tokens) if ids[text] != i)
        raise TextError(key, f"holds one token twice, as {twice} and {ids[tokens[twice]]}")
    return tokens, ids


def _read_kinds(metadata: Mapping[str, object], tokens: Sequence[str]) -> list[int]:
    kinds = read_ints(metadata, KEY + "token_type", len(tokens))
    if kinds is None:
        return [int(TokenKind.NORMAL)] * len(tokens)
    byte_kind = int(TokenKind.BYTE)
    for i, kind in enumerate(kinds):
        if kind == byte_kind and not _BYTE_TOKEN.fullmatch(tokens[i]):
            raise TextError(KEY + "tokens", f"entry {i} is no byte token, which its type claims")
    return kinds


def _read_merges(
    metadata: Mapping[str, object], tokens: Sequence[str], ids: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Pairs of the very strings in `tokens`: copies would take as much memory again."""
    key = KEY + "merges"
    merges = []
    for i, merge in enumerate(read_strings(metadata, key)):
        left, _, right = merge.partition(" ")
        if left not in ids or right not in ids or left + right not in ids:
            raise TextError(key, f"entry {i} names a token that the vocabulary lacks")
        merges.append((tokens[ids[left]], tokens[ids[right]]))
    return merges


def _read_special(
    metadata: Mapping[str, object], name: str, num_tokens: int, default: int | None
) -> int | None:
    return read_token_id(metadata, f"{KEY}{name}_token_id", num_tokens, default)


def _find_end_ids(
    metadata: Mapping[str, object], ids: Mapping[str, int], kinds: list[int], eos_id: int | None
) -> frozenset[int]:
    """The ids that end a text. Marks those found by name as what they are in `kinds`."""
    named = {text: ids[text] for text in token_names.END & ids.keys()}
    files = {ids[text] for text in token_names.FILE_END & ids.keys()}
    fill_ins = {ids[text] for text in token_names.FILL_IN & ids.keys()}
    for id_ in {*named.values(), *files, *fill_ins}:
        kinds[id_] = TokenKind.CONTROL
    for text in token_names.HARMONY & ids.keys():
        kinds[ids[text]] = TokenKind.USER_DEFINED
    if named.keys() >= {"<|end|>", "<|call|>"} and named.keys() & {"<|return|>", "<|flush|>"}:
        # In the harmony format <|end|> closes a channel, and the turn goes on.
        kinds[named.pop("<|end|>")] = TokenKind.USER_DEFINED
    if named.keys() >= {"<|tool_response>", "</s>"}:
        # Gemma 4 has </s> as a piece of markup.
        kinds[named.pop("</s>")] = TokenKind.NORMAL
    by_key = (_read_special(metadata, key, len(ids), None) for key in _END_KEYS)
    found = {*named.values(), *files, *by_key, eos_id}
    return frozenset(id_ for id_ in found if id_ is not None)


def _find_rstrip_ids(
    metadata: Mapping[str, object], tokens: Sequence[str], kinds: Sequence[int]
) -> frozenset[int]:
    # GGUF has no place for this property of phi-3's tokens; the model's name has to tell.
    name = read_str(metadata, "general.name", "").lower()
    if "phi-3" not in name and "phi3" not in name:
        return frozenset()
    special = {TokenKind.CONTROL, TokenKind.USER_DEFINED, TokenKind.UNKNOWN}
    return frozenset(
        i
        for i, (text, kind) in enumerate(zip(tokens, kinds, strict=True))
        if text == "</s>" or (kind in special and text not in ("<unk>", "<s>", "<|endoftext|>"))
    )
