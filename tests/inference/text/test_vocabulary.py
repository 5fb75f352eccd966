"""Malformed vocabularies are refused, by the metadata key and the reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.text.errors import TextError
from inference.text.tokenizer import Tokenizer
from inference.text.vocabulary import TokenKind, read_vocabulary

KEY = "tokenizer.ggml."


def change(key: str, value: object) -> Callable[[dict], None]:
    return lambda metadata: metadata.update({KEY + key: value})


def change_list(key: str, index: int, value: object) -> Callable[[dict], None]:
    return lambda metadata: metadata[KEY + key].__setitem__(index, value)


BAD_BPE = {
    "no model": (lambda m: m.pop(KEY + "model"), "model", "'' is not supported"),
    "unknown model": (change("model", "rwkv"), "model", "'rwkv' is not supported"),
    "model of another type": (change("model", 7), "model", "is a int"),
    "unknown pre-tokenizer": (change("pre", "x"), "pre", "'x' is not supported"),
    "no tokens": (lambda m: m.pop(KEY + "tokens"), "tokens", "is missing"),
    "empty tokens": (change("tokens", []), "tokens", "has 0 entries"),
    "tokens of numbers": (change("tokens", [1, 2]), "tokens", "not an array of strings"),
    "a token twice": (change_list("tokens", 5, "ab"), "tokens", "twice, as 5 and 256"),
    "types too short": (change("token_type", [1, 1]), "token_type", "has 2 entries"),
    "types of strings": (change("token_type", ["1"] * 263), "token_type", "array of numbers"),
    "types of floats": (change("token_type", np.ones(263)), "token_type", "array of integers"),
    "types nested": (
        change("token_type", np.ones((263, 1), int)),
        "token_type",
        "array of numbers",
    ),
    "scores too short": (change("scores", [0.0]), "scores", "has 1 entries"),
    "scores of integers": (change("scores", [0] * 263), "scores", "floating point"),
    "scores not numbers": (change("scores", [float("nan")] * 263), "scores", "not a number"),
    "no merges": (lambda m: m.pop(KEY + "merges"), "merges", "is missing"),
    "a merge of an absent token": (change_list("merges", 1, "ab zz"), "merges", "entry 1"),
    "a merge to an absent token": (change_list("merges", 1, "b a"), "merges", "entry 1"),
    "a merge of one": (change_list("merges", 0, "ab"), "merges", "entry 0"),
    "bos past the end": (change("bos_token_id", 263), "bos_token_id", "outside the vocabulary"),
    "eos negative": (change("eos_token_id", -1), "eos_token_id", "outside the vocabulary"),
    "eos a string": (change("eos_token_id", "2"), "eos_token_id", "token id is needed"),
    "eos true": (change("eos_token_id", True), "eos_token_id", "token id is needed"),
    "eot past the end": (change("eot_token_id", 2**40), "eot_token_id", "outside the vocabulary"),
    "add_bos a number": (change("add_bos_token", 1), "add_bos_token", "true or false"),
    "a byte token -1": (
        lambda m: (change_list("tokens", 3, "<0x-1>")(m), change_list("token_type", 3, 6)(m)),
        "tokens",
        "entry 3 is no byte token",
    ),
    "a huge special token": (change_list("tokens", 262, "x" * 2000), "tokens", "2000 characters"),
}


@pytest.mark.parametrize("name", BAD_BPE)
def test_it_is_refused(name: str, bpe_metadata: dict) -> None:
    spoil, field, reason = BAD_BPE[name]
    spoil(bpe_metadata)
    with pytest.raises(TextError, match=reason) as caught:
        Tokenizer.from_metadata(bpe_metadata)
    assert caught.value.field == KEY + field
    assert str(caught.value).endswith(".")


def test_too_many_tokens_are_refused(bpe_metadata: dict) -> None:
    bpe_metadata[KEY + "tokens"] = [str(i) for i in range((1 << 20) + 1)]
    with pytest.raises(TextError, match="1 to 1048576 can be used"):
        read_vocabulary(bpe_metadata)


def test_numpy_values_are_taken(bpe_metadata: dict) -> None:
    """The GGUF reader gives numeric arrays as NumPy's."""
    bpe_metadata[KEY + "token_type"] = np.array(bpe_metadata[KEY + "token_type"], np.int32)
    bpe_metadata[KEY + "scores"] = np.zeros(263, np.float32)
    bpe_metadata[KEY + "eos_token_id"] = np.uint32(260)
    assert read_vocabulary(bpe_metadata).eos_id == 260


def test_merges_are_pairs_of_the_tokens_themselves(bpe_metadata: dict) -> None:
    """A copy of both sides of every merge would be larger than the vocabulary."""
    vocabulary = read_vocabulary(bpe_metadata)
    left, right = vocabulary.merges[1]
    assert (left, right) == ("ab", "c")
    assert left is vocabulary.tokens[vocabulary.ids["ab"]]


def test_scores_are_held_in_eight_bytes_each(spm_metadata: dict) -> None:
    vocabulary = read_vocabulary(spm_metadata)
    assert list(vocabulary.scores) == spm_metadata["tokenizer.ggml.scores"]
    assert memoryview(vocabulary.scores).nbytes == 8 * len(vocabulary.tokens)
    del spm_metadata["tokenizer.ggml.scores"]
    assert set(read_vocabulary(spm_metadata).scores) == {0.0}


def test_missing_special_tokens_are_none(bpe_metadata: dict) -> None:
    """Without a bos token none is added, whatever the file says about adding it."""
    del bpe_metadata[KEY + "bos_token_id"]
    bpe_metadata[KEY + "add_bos_token"] = True
    vocabulary = read_vocabulary(bpe_metadata)
    assert (vocabulary.bos_id, vocabulary.add_bos) == (None, False)


def test_sentencepiece_defaults(spm_metadata: dict) -> None:
    for name in ("bos", "eos"):
        del spm_metadata[f"{KEY}{name}_token_id"]
    vocabulary = read_vocabulary(spm_metadata)
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.unknown_id) == (1, 2, 0)
    assert (vocabulary.add_bos, vocabulary.add_eos, vocabulary.add_space_prefix) == (
        True,
        False,
        True,
    )


def test_an_empty_token_gets_a_name(bpe_metadata: dict) -> None:
    bpe_metadata[KEY + "tokens"][262] = ""
    assert read_vocabulary(bpe_metadata).tokens[262] == "[EMPTY_262]"


def test_in_harmony_end_of_channel_does_not_end_the_turn(bpe_metadata: dict) -> None:
    bpe_metadata[KEY + "tokens"][256:259] = ["<|end|>", "<|return|>", "<|call|>"]
    bpe_metadata[KEY + "merges"] = []
    vocabulary = read_vocabulary(bpe_metadata)
    assert {256, 257, 258} & vocabulary.end_ids == {257, 258}
    assert vocabulary.kinds[256] == TokenKind.USER_DEFINED


def test_phi3_tokens_swallow_the_white_space_after_them(bpe_metadata: dict) -> None:
    """GGUF has no field for it: the model's name tells."""
    plain = Tokenizer.from_metadata(bpe_metadata)
    assert len(plain.encode("<|im_end|> \n a", add_special=False, parse_special=True)) == 4
    phi = Tokenizer.from_metadata(bpe_metadata | {"general.name": "Phi-3 mini"})
    ids = phi.encode("<|im_end|> \n a", add_special=False, parse_special=True)
    assert [phi.token_text(i) for i in ids] == ["<|im_end|>", "a"]


ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.one_of(st.text(max_size=3), st.integers(-2, 300), st.none()), max_size=300),
    st.integers(0, 300).map(lambda n: np.arange(n, dtype=np.int32)),
    st.integers(0, 300).map(lambda n: np.zeros(n, np.float32)),
)
OTHER_KEYS = ["scores", "add_bos_token", "add_eos_token", "add_space_prefix", "unknown_token_id"]


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_value_anywhere_is_taken_or_refused(
    data: st.DataObject, bpe_metadata: dict, spm_metadata: dict
) -> None:
    """Nothing but TextError comes out, and a vocabulary that is taken can encode and decode."""
    metadata = dict(data.draw(st.sampled_from([bpe_metadata, spm_metadata])))
    names = [*metadata, *(KEY + name for name in OTHER_KEYS)]
    for key in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
        metadata[key] = data.draw(ANY_VALUE)
    try:
        tokenizer = Tokenizer.from_metadata(metadata)
    except TextError:
        return
    ids = tokenizer.encode("ab <s>é", add_special=True, parse_special=True)
    assert isinstance(tokenizer.decode(ids), str)
