"""What a model file says of itself."""

from __future__ import annotations

import hashlib

import pytest

from inference.model.artifact import ArtifactInfo, describe, sha256_file
from inference.model.errors import GGUFError, ModelError
from tests.fakes.gguf_writer import Row, array, build, pair

BASE = {
    "general.architecture": ("string", "llama"),
    "general.name": ("string", "Small One"),
    "llama.block_count": ("u32", 3),
    "llama.context_length": ("u32", 2048),
    "llama.embedding_length": ("u32", 64),
    "llama.attention.head_count": ("u32", 4),
    "llama.attention.head_count_kv": ("u32", 2),
}
ROWS = [
    Row("token_embd.weight", (64, 30), 8, 0),
    Row("blk.0.attn_q.weight", (64, 10), 2, 2048),
    Row("output_norm.weight", (64,), 0, 2432),
]
DATA = bytes(2432 + 256)


@pytest.fixture
def model(tmp_path):
    def write(changes=None, *, without=(), extra=(), rows=ROWS):
        pairs = {**BASE, **(changes or {})}
        content = [pair(key, *value) for key, value in pairs.items() if key not in without]
        path = tmp_path / "file-name.gguf"
        path.write_bytes(build([*content, *extra], rows, DATA))
        return path

    return write


def test_it_works(model):
    path = model({"tokenizer.chat_template": ("string", "{{ messages }}")})
    assert describe(path) == ArtifactInfo(
        architecture="llama",
        name="Small One",
        num_parameters=64 * 30 + 64 * 10 + 64,
        quant_mix="Q8_0 75 %, Q4_0 25 %",
        context_len=2048,
        weight_bytes=30 * 68 + 10 * 36 + 256,
        kv_bytes_per_token=3 * 2 * (16 + 16) * 2,
        has_chat_template=True,
        file_bytes=path.stat().st_size,
    )


@pytest.mark.parametrize("template", [{}, {"tokenizer.chat_template": ("string", " \n")}])
def test_a_blank_chat_template_is_none(model, template):
    assert not describe(model(template)).has_chat_template


@pytest.mark.parametrize("without", [("general.name",), ()])
def test_a_model_without_a_name_is_called_after_its_file(model, without):
    path = model({} if without else {"general.name": ("string", "  ")}, without=without)
    assert describe(path).name == "file-name"


def test_a_hostile_name_becomes_one_short_line(model):
    name = describe(
        model({"general.name": ("string", "a\r\nb\x1b[31m\u202ec" + "x" * 10_000)})
    ).name
    assert name.startswith("a  b [31m c") and len(name) == 128 and name.isprintable()


def test_a_format_of_under_half_a_percent_is_still_named(model):
    rows = [Row("big.weight", (64, 30), 8, 0), Row("tiny.weight", (4, 1), 0, 2048)]
    assert describe(model(rows=rows)).quant_mix == "Q8_0 100 %, F32 <1 %"


def test_keys_and_values_have_lengths_of_their_own(model):
    lengths = {
        "llama.attention.key_length": ("u32", 24),
        "llama.attention.value_length": ("u32", 8),
    }
    assert describe(model(lengths)).kv_bytes_per_token == 3 * 2 * (24 + 8) * 2


def test_without_kv_heads_every_head_has_its_keys(model):
    path = model(without=("llama.attention.head_count_kv",))
    assert describe(path).kv_bytes_per_token == 3 * 4 * (16 + 16) * 2


def test_kv_heads_may_differ_from_layer_to_layer(model):
    heads = array("llama.attention.head_count_kv", "i32", [4, 0, 1])
    path = model(without=("llama.attention.head_count_kv",), extra=[heads])
    assert describe(path).kv_bytes_per_token == (4 + 0 + 1) * (16 + 16) * 2


def test_recurrent_layers_keep_no_keys(model):
    flags = array("llama.attention.recurrent_layers", "bool", [True, False, True])
    assert describe(model(extra=[flags])).kv_bytes_per_token == 1 * 2 * (16 + 16) * 2


def test_an_interval_of_attention_layers_is_counted(model):
    path = model({"llama.full_attention_interval": ("u32", 2)})
    assert describe(path).kv_bytes_per_token == 1 * 2 * (16 + 16) * 2


@pytest.mark.parametrize(
    "key", sorted(BASE.keys() - {"general.name", "llama.attention.head_count_kv"})
)
def test_what_is_needed_and_missing_is_named(model, key):
    with pytest.raises(ModelError) as caught:
        describe(model(without=(key,)))
    assert (caught.value.field, caught.value.reason) == (key, "is missing")


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        ("llama.block_count", "u32", 0),
        ("llama.block_count", "u32", 10**9),
        ("llama.block_count", "string", "3"),
        ("llama.context_length", "i32", -1),
        ("llama.context_length", "bool", True),
        ("llama.context_length", "u64", 2**40),
        ("llama.context_length", "f32", 2048.0),
        ("llama.embedding_length", "u32", 0),
        ("llama.attention.head_count", "u32", 0),
        ("llama.attention.head_count_kv", "u32", 0),
        ("llama.attention.key_length", "u32", 0),
        ("llama.full_attention_interval", "u32", 0),
    ],
)
def test_impossible_numbers_are_refused_by_name(model, key, kind, value):
    lengths = {
        "llama.attention.key_length": ("u32", 16),
        "llama.attention.value_length": ("u32", 16),
    }
    changes = (lengths if "length" in key and "attention" in key else {}) | {key: (kind, value)}
    with pytest.raises(ModelError) as caught:
        describe(model(changes))
    assert caught.value.field == key


@pytest.mark.parametrize(
    ("kind", "values"), [("i32", [1, 2]), ("f32", [1, 2, 3]), ("i32", [1, -2, 3]), ("i32", [])]
)
def test_impossible_heads_per_layer_are_refused(model, kind, values):
    heads = array("llama.attention.head_count_kv", kind, values)
    with pytest.raises(ModelError) as caught:
        describe(model(without=("llama.attention.head_count_kv",), extra=[heads]))
    assert caught.value.field == "llama.attention.head_count_kv"


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix"])
def test_what_is_no_whole_model_is_refused(model, kind):
    with pytest.raises(ModelError, match="only complete models"):
        describe(model({"general.type": ("string", kind)}))


def test_a_part_of_a_split_model_is_refused(model):
    with pytest.raises(ModelError, match="one of 3 parts"):
        describe(model({"split.count": ("u16", 3)}))


def test_a_model_in_one_part_is_described(model):
    assert describe(model({"split.count": ("u16", 1)})).architecture == "llama"


def test_a_malformed_file_is_refused(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(GGUFError):
        describe(path)


def test_the_digest_is_that_of_the_bytes_and_progress_ends_at_the_size(tmp_path):
    path = tmp_path / "file"
    content = bytes(range(256)) * 40_000
    path.write_bytes(content)
    seen = []
    assert sha256_file(path, lambda *step: seen.append(step)) == hashlib.sha256(content).hexdigest()
    assert seen == sorted(seen) and seen[-1] == (len(content), len(content)) and len(seen) > 1


def test_the_digest_of_an_empty_file(tmp_path):
    path = tmp_path / "file"
    path.touch()
    assert sha256_file(path) == hashlib.sha256().hexdigest()


@pytest.mark.parametrize("name", ["qwen3.Q8_0", "gemma3-scaled.f16", "qwen2.f16"])
def test_golden_models_are_described(golden, name):
    info = describe(golden / "tiny" / f"{name}.gguf")
    assert info.architecture == name.partition(".")[0].partition("-")[0]
    assert 0 < info.weight_bytes < info.file_bytes
    assert info.kv_bytes_per_token > 0
