"""Merging by rank, and cutting into words first, give what the slow definition gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.text.char_merges import merge_characters
from inference.text.tokenizer import Tokenizer

RANKS = {"ab": 0.0, "ba": 0.0, "abab": 1.0, "aba": 2.0, "cc": -1.0, "cca": 3.0, "bcc": 1.0}


def rank(left: str, right: str) -> float | None:
    return RANKS.get(left + right)


def merge_slowly(text: str) -> list[str]:
    pieces = list(text)
    while True:
        found = [
            (ranked, i)
            for i in range(len(pieces) - 1)
            if (ranked := rank(pieces[i], pieces[i + 1])) is not None
        ]
        if not found:
            return pieces
        i = min(found)[1]
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


def test_the_lowest_rank_goes_first_and_of_equals_the_leftmost() -> None:
    assert merge_characters("bab", rank) == ["ba", "b"]
    assert merge_characters("bcca", rank) == ["bcc", "a"]
    assert merge_characters("", rank) == []


@given(st.text("abc", max_size=40))
def test_it_agrees_with_the_definition(text: str) -> None:
    assert merge_characters(text, rank) == merge_slowly(text)


@given(st.text("ab ", max_size=40), st.booleans())
def test_words_do_not_change_the_tokens(text: str, reaching: bool) -> None:
    """Also where the vocabulary has a token that reaches over the beginning of a word."""
    tokens = {"▁": 0.0, "a": 0.0, "b": 0.0, "ab": -2.0, "▁a": -1.0, "▁▁": -3.0, "▁ab": -4.0}
    if reaching:
        tokens["b▁"] = -1.5
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.scores": [float(score) for score in tokens.values()],
        "tokenizer.ggml.add_space_prefix": False,
    }
    tokenizer = Tokenizer.from_metadata(metadata)
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    wanted = merge_characters(
        text.replace(" ", "▁"),
        lambda left, right: -tokens[left + right] if left + right in tokens else None,
    )
    assert [tokenizer.token_text(i) for i in ids] == wanted
