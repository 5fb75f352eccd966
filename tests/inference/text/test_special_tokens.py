"""Special tokens are cut out from left to right, the longest first."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.text.special_tokens import SpecialTokens
from inference.text.vocabulary import read_vocabulary


def special_tokens(bpe_metadata: dict, *added: str) -> SpecialTokens:
    """A vocabulary whose user-defined tokens are `added`, with ids from 0."""
    vocabulary = read_vocabulary(bpe_metadata)
    tokens = [*added, *vocabulary.tokens]
    kinds = [*[4] * len(added), *[1] * len(vocabulary.kinds)]
    return SpecialTokens(replace(vocabulary, tokens=tokens, kinds=kinds))


def split(specials: SpecialTokens, text: str) -> list[int | str]:
    return list(specials.split(text, control=False))


def test_the_longest_token_wins(bpe_metadata: dict) -> None:
    specials = special_tokens(bpe_metadata, "<a>", "<a><b>", "<")
    assert split(specials, "x<a><b>y<a>z<q") == ["x", 1, "y", 0, "z", 2, "q"]


def test_a_token_cut_short_by_the_end_is_text(bpe_metadata: dict) -> None:
    assert split(special_tokens(bpe_metadata, "<a>"), "x<a") == ["x<a"]


def test_no_tokens_leave_the_text_whole(bpe_metadata: dict) -> None:
    assert split(special_tokens(bpe_metadata), "x<a>") == ["x<a>"]
    assert split(special_tokens(bpe_metadata), "") == []


@pytest.mark.parametrize("first", ["]", "^", "-", "\\", "[", "."])
def test_marks_of_regular_expressions_are_characters(first: str, bpe_metadata: dict) -> None:
    assert split(special_tokens(bpe_metadata, first + "x"), f"a{first}xb") == ["a", 0, "b"]


@given(
    added=st.sets(st.text("ab<", min_size=1, max_size=4), max_size=6),
    text=st.text("ab<", max_size=40),
)
def test_it_agrees_with_a_regular_expression(added: set[str], text: str) -> None:
    """Alternatives ordered by length are the same search."""
    names = sorted(added, key=lambda name: (-len(name), name))
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": ["\x00"],
        "tokenizer.ggml.merges": [],
    }
    pieces = re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text]
    wanted = [names.index(p) if i % 2 else p for i, p in enumerate(pieces) if p]
    assert split(special_tokens(metadata, *names), text) == wanted
