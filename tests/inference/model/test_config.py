"""A model's hyper-parameters are read from metadata, and refused where they cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inference.model.config import ModelConfig
from inference.model.errors import ModelError


def _metadata(arch="llama", **changed):
    metadata = {
        "general.architecture": arch,
        f"{arch}.block_count": 3,
        f"{arch}.context_length": 256,
        f"{arch}.embedding_length": 64,
        f"{arch}.feed_forward_length": 128,
        f"{arch}.attention.head_count": 4,
        f"{arch}.attention.head_count_kv": 2,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": ["a", "b", "c"],
    }
    for key, value in changed.items():
        name = f"{arch}.{key.replace('__', '.')}"
        metadata[name] = value
        if value is None:
            del metadata[name]
    return metadata


def test_it_works():
    """Sizes that follow from others are filled in."""
    config = ModelConfig.from_metadata(_metadata())
    assert (config.num_layers, config.width, config.ffn_width) == (3, 64, 128)
    assert (config.head_dim, config.q_width, config.kv_width) == (16, 64, 32)
    assert (config.vocab_size, config.context_len) == (3, 256)
    assert config.window is None
    assert config.softcap == 0.0


def test_head_dim_may_differ_from_width_over_heads():
    """Given key_length, the width of queries is not that of the model."""
    metadata = _metadata(attention__key_length=32, attention__value_length=32)
    assert ModelConfig.from_metadata(metadata).q_width == 128


def test_one_kv_head_for_each_head_where_the_file_does_not_say():
    config = ModelConfig.from_metadata(_metadata(attention__head_count_kv=None))
    assert config.num_kv_heads == 4


def test_the_vocabulary_is_counted_before_it_is_believed():
    """The token list wins over vocab_size, which serves files without a tokenizer."""
    metadata = _metadata(vocab_size=7)
    assert ModelConfig.from_metadata(metadata).vocab_size == 3
    del metadata["tokenizer.ggml.tokens"]
    assert ModelConfig.from_metadata(metadata).vocab_size == 7


def test_gemma_windows():
    """Every sixth layer sees all positions; the others rotate by their own base, unscaled."""
    config = ModelConfig.from_metadata(
        _metadata(
            "gemma3",
            attention__sliding_window=24,
            final_logit_softcapping=10.0,
            rope__scaling__type="linear",
            rope__scaling__factor=8.0,
            rope__freq_base=1e6,
        )
    )
    assert [config.window_len(layer) for layer in range(7)] == [24, 24, 24, 24, 24, 0, 24]
    assert config.softcap == 10.0
    assert config.local_rope_table().inv_freq[1] == pytest.approx(10000 ** (-1 / 8))
    assert config.rope.table().inv_freq[1] == pytest.approx(1e6 ** (-1 / 8) / 8)


def test_gemma_window_keys():
    """Files may name the period and the local base, in either spelling."""
    metadata = _metadata(
        "gemma3", attention__sliding_window=24, attention__sliding_window_pattern=2
    )
    assert ModelConfig.from_metadata(metadata).window_len(1) == 0
    for key in ("gemma3.rope.freq_base_swa", "gemma3.rope.local.freq_base"):
        window = ModelConfig.from_metadata({**metadata, key: 5000.0}).window
        assert window is not None
        assert window.rope_base == 5000.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", 0),
        ("block_count", 10**9),
        ("block_count", None),
        ("block_count", "3"),
        ("block_count", True),
        ("context_length", 0),
        ("embedding_length", 2**40),
        ("embedding_length", 66),
        ("feed_forward_length", -1),
        ("attention.head_count", 0),
        ("attention.head_count", [4, 4, 4]),
        ("attention.head_count", np.array([4, 4, 4])),
        ("attention.head_count_kv", 3),
        ("attention.head_count_kv", 8),
        ("attention.head_count_kv", 0),
        ("attention.key_length", 15),
        ("attention.value_length", 8),
        ("attention.layer_norm_rms_epsilon", math.nan),
        ("attention.layer_norm_rms_epsilon", 0.0),
        ("attention.layer_norm_rms_epsilon", None),
        ("rope.freq_base", math.nan),
        ("rope.freq_base", math.inf),
        ("rope.freq_base", -1.0),
        ("rope.freq_base", "10000"),
        ("rope.dimension_count", 7),
        ("rope.dimension_count", 32),
        ("rope.scaling.factor", math.nan),
        ("rope.scaling.factor", 1e-9),
        ("rope.scaling.type", "longrope"),
        ("rope.scaling.type", 3),
        ("expert_count", 8),
    ],
)
def test_refusals_name_the_key(key, value):
    """Each refusal names the metadata key in a sentence."""
    metadata = _metadata()
    metadata[f"llama.{key}"] = value
    if value is None:
        del metadata[f"llama.{key}"]
    with pytest.raises(ModelError) as caught:
        ModelConfig.from_metadata(metadata)
    assert caught.value.field == f"llama.{key}"
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("tokens", [[], "abc", 3])
def test_a_vocabulary_that_is_none(tokens):
    metadata = _metadata() | {"tokenizer.ggml.tokens": tokens}
    with pytest.raises(ModelError) as caught:
        ModelConfig.from_metadata(metadata)
    assert caught.value.field == "tokenizer.ggml.tokens"


def test_a_long_list_does_not_become_a_long_message():
    with pytest.raises(ModelError) as caught:
        ModelConfig.from_metadata(_metadata(block_count=["x" * 100] * 1000))
    assert len(str(caught.value)) < 200
