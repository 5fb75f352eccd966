"""Merging characters into tokens, best merge first: SentencePiece's BPE and Gemma 4's.

Works on raw text with byte fallback, where `byte_level` works on words of bytes. Knows nothing about
special tokens. Source: Kudo and Richardson 2018 (SentencePiece), §3.1; order and ties as llama.cpp's.
"""

from __future__ import annotations

import heapq
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from inference.text.vocabulary import Vocabulary

SPACE = "\u2581"  # stands for a space within tokens
_MAX_CACHED_LEN = 64
_NUM_CACHED_WORDS = 1 << 15
_LINES = re.compile(r"[^\n]+|\n+")


class CharMergeBPE:
    """Encoder of a "llama" vocabulary, whose merges are ranked by the score of their result, or of a
    "gemma4" one, which lists its merges by rank."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids = vocabulary.ids
        self._unknown_id = vocabulary.unknown_id
        self._by_lines = vocabulary.model == "gemma4"
        self._rank = _listed_ranks(vocabulary) if self._by_lines else _score_ranks(vocabulary)
        self._word_start = _word_start(vocabulary.ids)
        self._encode_cached = lru_cache(_NUM_CACHED_WORDS)(self._encode_word)

    def encode(self, text: str) -> list[int]:
        text = text.replace(" ", SPACE)
        ids: list[int] = []
        for line in _LINES.findall(text) if self._by_lines else (text,):
            if self._by_lines and line[0] == "\n" and line in self._ids:
                ids.append(self._ids[line])
                continue
            for word in self._word_start.split(line):
                short = len(word) <= _MAX_CACHED_LEN
                ids += self._encode_cached(word) if short else self._encode_word(word)
        return ids

    @staticmethod
    def token_bytes(token: str) -> bytes:
        return token.replace(SPACE, " ").encode()

    def _encode_word(self, word: str) -> tuple[int, ...]:
        ids: list[int] = []
        for piece in merge_characters(word, self._rank):
            id_ = self._ids.get(piece)
            if id_ is not None:
                ids.append(id_)
            else:
                ids += self._fall_back(piece)
        return tuple(ids)

    def _fall_back(self, piece: str) -> list[int]:
        ids = (self._ids.get(f"<0x{byte:02X}>", self._unknown_id) for byte in piece.encode())
        return [id_ for id_ in ids if id_ is not None]


def merge_characters(text: str, rank: Callable[[str, str], float | None]) -> list[str]:
    """Merge neighbours, the lowest rank first and of equals the leftmost, until no pair has a rank.

    O(n log n) in the length of the text.
    """
    pieces = list(text)
    num = len(pieces)
    following, before = list(range(1, num + 1)), list(range(-1, num - 1))
    # (rank, left piece, length of both): stale once either piece has grown or gone.
    heap: list[tuple[float, int, int]] = []
    for i in range(num - 1):
        found = rank(pieces[i], pieces[i + 1])
        if found is not None:
            heap.append((found, i, 2))
    heapq.heapify(heap)
    while heap:
        _, left, length = heapq.heappop(heap)
        right = following[left]
        if not pieces[left] or right >= num or len(pieces[left]) + len(pieces[right]) != length:
            continue
        pieces[left] += pieces[right]
        pieces[right] = ""
        after = following[left] = following[right]
        if after < num:
            before[after] = left
            found = rank(pieces[left], pieces[after])
            if found is not None:
                heapq.heappush(heap, (found, left, length + len(pieces[after])))
        first = before[left]
        if first >= 0:
            found = rank(pieces[first], pieces[left])
            if found is not None:
                heapq.heappush(heap, (found, first, len(pieces[first]) + length))
    return [piece for piece in pieces if piece]


def _score_ranks(vocabulary: Vocabulary) -> Callable[[str, str], float | None]:
    ids, scores = vocabulary.ids, vocabulary.scores

    def rank(left: str, right: str) -> float | None:
        id_ = ids.get(left + right)
        return None if id_ is None else -scores[id_]

    return rank


def _listed_ranks(vocabulary: Vocabulary) -> Callable[[str, str], float | None]:
    ranks = {merge: i for i, merge in reversed(list(enumerate(vocabulary.merges)))}
    return lambda left, right: ranks.get((left, right))


def _word_start(ids: Mapping[str, int]) -> re.Pattern[str]:
    """Where a text may be cut into words without changing its tokens.

    A merge makes a token, so none reaches over a place between `c` and a space unless some token
    has `c` before a space in it; such `c` are excepted.
    """
    excepted = {pair[0] for pair in re.findall(f"[^{SPACE}]{SPACE}", "\n".join(ids))}
    return re.compile(f"(?<=[^{SPACE}{''.join(map(re.escape, excepted))}])(?={SPACE})")
