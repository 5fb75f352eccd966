"""Vocabularies for tests of text: those of the tiny models, and small ones written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.model.gguf import read_gguf
from inference.text.tokenizer import Tokenizer

TINY = {
    "llama-rope-llama3": "llama-rope-llama3.f16.gguf",
    "qwen3": "qwen3.Q4_0.gguf",
    "gemma3-scaled": "gemma3-scaled.f16.gguf",
    "llama-tied-spm": "llama-tied-spm.Q4_K.gguf",
}


@pytest.fixture(scope="session")
def tiny_tokenizers(golden: Path) -> dict[str, Tokenizer]:
    """One tokenizer a kind: byte-level BPE twice, SentencePiece with and without a space in front."""
    found = {}
    for stem, name in TINY.items():
        with read_gguf(golden / "tiny" / name) as gguf:
            found[stem] = Tokenizer.from_metadata(gguf.metadata)
    return found


@pytest.fixture
def bpe_metadata() -> dict[str, object]:
    """Byte-level BPE: every byte, three merges, ChatML's tokens and a user-defined one."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [chr(0x100 + i) for i in range(256 - len(printable))]
    tokens = [*map(chr, printable), *others, "ab", "abc", "Ġa"]
    types = [1] * len(tokens)
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tag>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*tokens, *special],
        "tokenizer.ggml.token_type": [*types, 3, 3, 3, 4],
        "tokenizer.ggml.merges": ["a b", "ab c", "Ġ a"],
        "tokenizer.ggml.bos_token_id": len(tokens) + 2,
        "tokenizer.ggml.eos_token_id": len(tokens) + 1,
    }


@pytest.fixture
def spm_metadata() -> dict[str, object]:
    """SentencePiece: every byte as a fallback, a few letters and scored merges."""
    pieces = {"▁": -1.0, "a": -2.0, "b": -3.0, "ab": -4.0, "ba": -5.0, "▁ab": -6.0, "aba": -7.0}
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + list(pieces.values()),
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(pieces)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
