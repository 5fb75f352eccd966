"""Token ids and bytes are those of llama.cpp, vocabulary by vocabulary."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from inference.model.gguf import read_gguf
from inference.text.errors import TextError
from inference.text.tokenizer import Tokenizer
from tests.inference.text.conftest import TINY

SUPPORTED = (
    "aquila baichuan command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 gpt-neox llama-bpe"
    " llama-spm mpt phi-3 qwen2 qwen35 refact starcoder"
)
# llama.cpp tidies the spaces before contractions when it decodes these; a stream cannot, and the
# text it was given comes back unchanged here.
TIDIED = "don't DON'T"


def load(shared: Path, folder: Path, name: str) -> tuple[dict, Tokenizer]:
    path = folder / f"{name}.gguf"
    with lzma.open(shared / "vocab" / f"ggml-vocab-{name}.gguf.xz") as packed:
        path.write_bytes(packed.read())
    wanted = json.loads((shared / "tokenizers" / f"{name}.json").read_text())
    with read_gguf(path) as gguf:
        return wanted, Tokenizer.from_metadata(gguf.metadata)


def raw(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    joined = b"".join(tokenizer.token_bytes(i, special=True) for i in ids)
    return joined.removeprefix(b" ") if tokenizer.add_space_prefix else joined


@pytest.mark.parametrize("stem", TINY)
def test_tiny_vocabularies(stem: str, golden: Path, tiny_tokenizers: dict[str, Tokenizer]) -> None:
    """Three texts with code, several scripts and emoji: ids equal, and the text comes back."""
    wanted = json.loads((golden / "tokenizers/tiny.json").read_text())
    tokenizer = tiny_tokenizers[stem]
    for name, text in wanted["texts"].items():
        ids = tokenizer.encode(text, add_special=True, parse_special=True)
        assert ids == wanted["ids"][stem][name]
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", SUPPORTED.split())
def test_full_vocabularies(name: str, shared_golden: Path, tmp_path: Path) -> None:
    """llama.cpp's own vectors, and composed strings with special tokens on, off and added."""
    wanted, tokenizer = load(shared_golden, tmp_path, name)
    for vector in wanted.get("vectors") or []:
        ids = tokenizer.encode(vector["text"], add_special=False, parse_special=False)
        assert ids == vector["ids"]
    assert wanted["tricky"]
    for case in wanted["tricky"]:
        text, ids = case["text"], case["ids"]
        with_special = case.get("ids_special", ids)
        assert tokenizer.encode(text, add_special=False, parse_special=False) == ids
        assert tokenizer.encode(text, add_special=True, parse_special=True) == with_special
        parsed = tokenizer.encode(text, add_special=False, parse_special=True)
        assert parsed in ([case["ids_parse"]] if "ids_parse" in case else [ids, with_special])
        if text.startswith(TIDIED):
            assert raw(tokenizer, ids).decode() == text
        elif "detok_hex" in case:
            assert raw(tokenizer, ids).hex() == case["detok_hex"]
        else:
            assert raw(tokenizer, ids).decode() == text
    for case in wanted["invalid_utf8"]:
        if "detok_hex" in case:
            assert raw(tokenizer, case["ids"]).hex() == case["detok_hex"]
    info = wanted["info"]
    assert sorted(tokenizer.end_ids) == info["eog"]
    assert (tokenizer.add_bos, tokenizer.add_eos) == (info["add_bos"], info["add_eos"])
    assert (tokenizer.bos_id, tokenizer.eos_id) == (info["bos"], info["eos"])
    assert tokenizer.vocab_size == info["n_vocab"]


@pytest.mark.parametrize("name, kind", [("bert-bge", "bert"), ("nomic-bert-moe", "t5")])
def test_other_types_are_refused_by_name(
    name: str, kind: str, shared_golden: Path, tmp_path: Path
) -> None:
    with pytest.raises(TextError, match=f"the vocabulary type '{kind}' is not supported"):
        load(shared_golden, tmp_path, name)


@pytest.mark.parametrize(
    "text", ["ab1x" * 25_000, "你好世界" * 8_000, "two words " * 10_000, " " * 100_000]
)
@pytest.mark.parametrize("stem", TINY)
def test_long_texts_take_no_quadratic_time(
    stem: str, text: str, tiny_tokenizers: dict[str, Tokenizer]
) -> None:
    """A hundred kilobytes take less than a second alone; quadratic time would be minutes."""
    ids = tiny_tokenizers[stem].encode(text, add_special=False, parse_special=True)
    assert tiny_tokenizers[stem].decode(ids) == text
