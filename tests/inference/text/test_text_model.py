"""A model's tokenizer and template, from one file's metadata."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from inference.text.errors import TemplateError, TextError
from inference.text.text_model import TextModel

TEMPLATE = "tokenizer.chat_template"
USER = [{"role": "user", "content": "ab"}]


def test_the_files_template_is_used(bpe_metadata: dict) -> None:
    bpe_metadata[TEMPLATE] = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    text = TextModel.from_metadata(bpe_metadata)
    assert not text.chat_template.is_default
    assert text.chat_template.render(USER) == "<|endoftext|>ab<|im_end|>"
    assert text.chat_stops == ()


def test_chatml_stands_in_when_there_is_none(bpe_metadata: dict) -> None:
    text = TextModel.from_metadata(bpe_metadata)
    assert text.chat_template.is_default
    assert text.chat_template.render(USER).startswith("<|im_start|>user\nab<|im_end|>")
    assert text.chat_stops == ()


def test_a_vocabulary_without_chatml_needs_stop_strings(spm_metadata: dict) -> None:
    text = TextModel.from_metadata(spm_metadata)
    assert text.chat_template.is_default
    assert "<|im_end|>" in text.chat_stops


def test_a_malformed_template_is_refused(bpe_metadata: dict) -> None:
    with pytest.raises(TemplateError, match="SyntaxError"):
        TextModel.from_metadata(bpe_metadata | {TEMPLATE: "{{ "})
    with pytest.raises(TextError, match="chat_template: is a int"):
        TextModel.from_metadata(bpe_metadata | {TEMPLATE: 7})


@pytest.mark.parametrize("prompt", ["ab", "<s>ab"])
def test_a_prompt_begins_with_bos_exactly_once(prompt: str, spm_metadata: dict) -> None:
    """Templates differ in whether they write it themselves."""
    text = TextModel.from_metadata(spm_metadata)
    ids = text.encode_chat(prompt)
    assert [text.tokenizer.token_text(i) for i in ids] == ["<s>", "▁ab"]


def test_a_malformed_vocabulary_leaves_no_process(bpe_metadata: dict) -> None:
    """The template's process starts beside the vocabulary, and ends with the attempt."""
    before = children()
    with pytest.raises(TextError, match=r"tokenizer\.ggml\.tokens"):
        TextModel.from_metadata(bpe_metadata | {"tokenizer.ggml.tokens": 7, TEMPLATE: "x"})
    gc.collect()
    assert children() <= before


def children() -> set[str]:
    """Ids of the processes that this one started and that have not ended."""
    found = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    return {pid for pids in found for pid in pids}
