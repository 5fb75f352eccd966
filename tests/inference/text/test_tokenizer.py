"""What a tokenizer adds, parses and spells."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.tokenizer import Tokenizer


def texts(ids: list[int], tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token_text(i) for i in ids]


def test_control_tokens_are_text_unless_parsed(bpe_metadata: dict) -> None:
    """A user's text cannot fake a turn when parse_special is off; user-defined tokens always count."""
    tokenizer = Tokenizer.from_metadata(bpe_metadata)
    text = "<tag>abc<|im_end|>"
    parsed = tokenizer.encode(text, add_special=False, parse_special=True)
    assert texts(parsed, tokenizer) == ["<tag>", "abc", "<|im_end|>"]
    plain = tokenizer.encode(text, add_special=False, parse_special=False)
    assert texts(plain, tokenizer)[:2] == ["<tag>", "abc"]
    assert len(plain) == 2 + len("<|im_end|>")


def test_bos_and_eos_are_added_when_the_file_says_so(bpe_metadata: dict) -> None:
    bare = Tokenizer.from_metadata(bpe_metadata)
    assert texts(bare.encode("a", add_special=True, parse_special=False), bare) == ["a"]
    bpe_metadata |= {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}
    adding = Tokenizer.from_metadata(bpe_metadata)
    wanted = ["<|endoftext|>", "a", "<|im_end|>"]
    assert texts(adding.encode("a", add_special=True, parse_special=False), adding) == wanted
    assert texts(adding.encode("a", add_special=False, parse_special=False), adding) == ["a"]


def test_sentencepiece_puts_a_space_first_and_takes_it_back(spm_metadata: dict) -> None:
    tokenizer = Tokenizer.from_metadata(spm_metadata)
    ids = tokenizer.encode("ab</s>ab", add_special=True, parse_special=True)
    assert texts(ids, tokenizer) == ["<s>", "▁ab", "</s>", "▁ab"]
    assert tokenizer.decode(ids) == "ab ab"
    assert tokenizer.decode(ids, starts_text=False) == " ab ab"


def test_characters_without_a_token_fall_back_to_bytes(spm_metadata: dict) -> None:
    tokenizer = Tokenizer.from_metadata(spm_metadata)
    ids = tokenizer.encode("é", add_special=False, parse_special=False)
    assert texts(ids, tokenizer) == ["▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(ids) == "é"


def test_control_tokens_add_nothing_unless_asked(bpe_metadata: dict) -> None:
    tokenizer = Tokenizer.from_metadata(bpe_metadata)
    end = tokenizer.eos_id
    assert end is not None
    assert tokenizer.token_bytes(end) == b""
    assert tokenizer.token_bytes(end, special=True) == b"<|im_end|>"
    assert tokenizer.decode([end], special=True) == "<|im_end|>"


def test_ids_past_the_vocabulary_add_nothing(bpe_metadata: dict) -> None:
    """A model's output may be wider than its vocabulary."""
    tokenizer = Tokenizer.from_metadata(bpe_metadata)
    assert tokenizer.token_bytes(tokenizer.vocab_size) == b""
    assert tokenizer.token_text(tokenizer.vocab_size) == ""


def test_turn_ends_are_found_by_name(bpe_metadata: dict) -> None:
    """The file names <|im_end|> as eos; <|endoftext|> ends a text as well."""
    tokenizer = Tokenizer.from_metadata(bpe_metadata)
    assert {tokenizer.token_text(i) for i in tokenizer.end_ids} == {"<|im_end|>", "<|endoftext|>"}


def test_a_lone_surrogate_becomes_a_replacement_character(bpe_metadata: dict) -> None:
    tokenizer = Tokenizer.from_metadata(bpe_metadata)
    ids = tokenizer.encode("a\ud800b\ud83d\ude42", add_special=False, parse_special=False)
    assert tokenizer.decode(ids) == "a\ufffdb🙂"


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_comes_back(text: str, tiny_tokenizers: dict[str, Tokenizer]) -> None:
    """Encoding loses nothing, in any kind of vocabulary, with special tokens parsed or not."""
    for name, tokenizer in tiny_tokenizers.items():
        for parse_special in (False, True):
            ids = tokenizer.encode(text, add_special=False, parse_special=parse_special)
            # SentencePiece spells a space as U+2581, and cannot tell a real one from it.
            spelt = text if "spm" not in name and "gemma" not in name else text.replace("▁", " ")
            assert tokenizer.decode(ids, special=True) == spelt
