"""Text that arrives token by token holds whole characters only, and adds up to the whole."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.detokenizer import Detokenizer
from inference.text.tokenizer import Tokenizer


def test_a_character_waits_for_its_last_byte(spm_metadata: dict) -> None:
    tokenizer = Tokenizer.from_metadata(spm_metadata)
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(3 + byte) for byte in "é🙂".encode()]
    assert pieces == ["", "é", "", "", "", "🙂"]
    assert detokenizer.flush() == ""


def test_half_a_character_at_the_end_is_replaced(spm_metadata: dict) -> None:
    detokenizer = Detokenizer(Tokenizer.from_metadata(spm_metadata))
    assert detokenizer.push(3 + 0xF0) + detokenizer.push(3 + 0x9F) == ""
    assert detokenizer.flush() == "\ufffd"


def test_an_invalid_byte_holds_nothing_up(spm_metadata: dict) -> None:
    tokenizer = Tokenizer.from_metadata(spm_metadata)
    detokenizer = Detokenizer(tokenizer)
    ids = [3 + 0xFF, *tokenizer.encode("a", add_special=False, parse_special=False)]
    assert "".join(map(detokenizer.push, ids)) == "\ufffd a"


def test_a_space_at_the_start_stays_unless_the_text_starts_here(spm_metadata: dict) -> None:
    """A completion goes on from its prompt: " ab" after "say" is "say ab"."""
    tokenizer = Tokenizer.from_metadata(spm_metadata)
    ids = tokenizer.encode("ab", add_special=True, parse_special=False)
    going_on, starting = Detokenizer(tokenizer), Detokenizer(tokenizer, starts_text=True)
    assert "".join(map(going_on.push, ids)) == " ab"
    assert "".join(map(starting.push, ids)) == "ab"


@settings(max_examples=100, deadline=None)
@given(
    stem=st.sampled_from(["llama-rope-llama3", "qwen3", "gemma3-scaled", "llama-tied-spm"]),
    ids=st.lists(st.integers(0, 700), max_size=40),
    special=st.booleans(),
    starts_text=st.booleans(),
)
def test_pushes_add_up_to_the_decoded_text(
    stem: str,
    ids: list[int],
    special: bool,
    starts_text: bool,
    tiny_tokenizers: dict[str, Tokenizer],
) -> None:
    """Any ids, valid UTF-8 or not; no piece but the last shows an incomplete character."""
    tokenizer = tiny_tokenizers[stem]
    detokenizer = Detokenizer(tokenizer, special=special, starts_text=starts_text)
    text = "".join([*map(detokenizer.push, ids), detokenizer.flush()])
    assert text == tokenizer.decode(ids, special=special, starts_text=starts_text)
