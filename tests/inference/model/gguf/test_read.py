"""Reading well-formed GGUF files."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from inference.model.errors import GGUFError
from inference.model.gguf import read_gguf
from tests.fakes.gguf_writer import CODES, Row, array, build, pair, small_model


@pytest.fixture
def write(tmp_path):
    def write(content: bytes):
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        return path

    return write


def test_every_scalar_type_is_read(write):
    values = {"u8": 200, "i8": -3, "u16": 60_000, "i16": -300, "u32": 2**32 - 1, "i32": -(2**31)}
    values |= {"f32": 0.5, "bool": True, "u64": 2**64 - 1, "i64": -(2**63), "f64": 0.1}
    values |= {"string": "grüße\n\0"}
    with read_gguf(write(build([pair(k, k, v) for k, v in values.items()]))) as gguf:
        assert gguf.metadata == values
        assert {k: type(v) for k, v in gguf.metadata.items()} == {
            k: type(v) for k, v in values.items()
        }


@pytest.mark.parametrize("kind", sorted(CODES))
def test_arrays_of_numbers_are_read_only_numpy_arrays(write, kind):
    with read_gguf(write(build([array("a", kind, [0, 1, 1])]))) as gguf:
        values = gguf.metadata["a"]
        assert isinstance(values, np.ndarray) and values.shape == (3,)
        assert values.tolist() == [0, 1, 1]
        assert values.dtype == np.dtype("?" if kind == "bool" else CODES[kind])
        assert not values.flags.writeable


def test_arrays_of_strings_are_lists(write):
    words = ["", "a", "日本語", "\0", "x" * 100_000]
    with read_gguf(write(build([array("t", "string", words)]))) as gguf:
        assert gguf.metadata["t"] == words


def test_string_arrays_longer_than_the_read_window_are_whole(write):
    words = [f"{i}" * (i % 97) for i in range(60_000)]
    pairs = [array("t", "string", words), pair("after", "u32", 7)]
    with read_gguf(write(build(pairs))) as gguf:
        assert gguf.metadata["t"] == words
        assert gguf.metadata["after"] == 7


@pytest.mark.parametrize("kind", ["string", "u8", "bool", "f64"])
def test_empty_arrays_are_read(write, kind):
    with read_gguf(write(build([array("a", kind, [])]))) as gguf:
        assert len(gguf.metadata["a"]) == 0


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(write, version):
    with read_gguf(write(build(version=version))) as gguf:
        assert (gguf.version, dict(gguf.metadata), dict(gguf.tensors)) == (version, {}, {})


def test_tensor_shapes_are_row_major_and_data_are_the_bytes_of_the_file(write):
    content = small_model()
    path = write(content)
    with read_gguf(path) as gguf:
        assert gguf.path == path and gguf.num_bytes == len(content)
        found = {t.name: (t.quant, t.shape, t.data.nbytes) for t in gguf.tensors.values()}
        assert found == {
            "a.weight": ("Q8_0", (3, 32), 3 * 34),
            "b.weight": ("F32", (4,), 16),
            "c.weight": ("Q4_K", (2, 2, 256), 4 * 144),
        }
        start = len(content) - 1024
        assert gguf.tensors["a.weight"].data.tobytes() == content[start : start + 102]
        assert gguf.tensors["b.weight"].data.tobytes() == content[start + 128 : start + 144]
        assert gguf.tensors["c.weight"].data.tobytes() == content[start + 192 : start + 768]
        assert all(not t.data.flags.writeable for t in gguf.tensors.values())


def test_tensors_may_lie_in_any_order_and_touch(write):
    rows = [Row("second", (8,), 0, 32), Row("first", (8,), 0, 0)]
    with read_gguf(write(build([], rows, bytes(range(64))))) as gguf:
        assert gguf.tensors["second"].data[0] == 32
        assert gguf.tensors["first"].data[0] == 0


def test_the_padding_after_the_last_tensor_may_be_missing(write):
    with read_gguf(write(build([], [Row("w", (3,))], bytes(12)))) as gguf:
        assert gguf.tensors["w"].data.nbytes == 12


def test_metadata_and_tensors_cannot_be_changed(write):
    with read_gguf(write(small_model())) as gguf:
        with pytest.raises(TypeError):
            gguf.metadata["x"] = 1
        with pytest.raises(TypeError):
            gguf.tensors["x"] = None


def test_closing_forgets_the_tensors_but_not_the_metadata(write):
    gguf = read_gguf(write(small_model()))
    gguf.close()
    gguf.close()
    assert not gguf.tensors
    assert gguf.metadata["general.architecture"] == "llama"


def test_forgetting_the_metadata_keeps_the_tensors(write):
    data = small_model()
    with read_gguf(write(data)) as file:
        before = {name: tensor.data.tobytes() for name, tensor in file.tensors.items()}
        file.forget_metadata()
        assert not file.metadata
        assert before == {name: tensor.data.tobytes() for name, tensor in file.tensors.items()}


def test_bytes_that_were_read_survive_closing(write):
    gguf = read_gguf(write(small_model()))
    tensor = gguf.tensors["b.weight"]
    data = tensor.data
    gguf.close()
    assert data.tobytes() == bytes(range(128, 144))
    with pytest.raises(ValueError, match="closed file"):
        tensor.read(0, 1)


def test_a_symlink_to_a_model_is_read(write, tmp_path):
    link = tmp_path / "link.gguf"
    link.symlink_to(write(small_model()))
    with read_gguf(link) as gguf:
        assert len(gguf.tensors) == 3


def test_a_vocabulary_of_262144_tokens_takes_half_a_second_of_cpu_at_most(write):
    words = [f"<token {i}>" for i in range(262_144)]
    path = write(build([array("tokenizer.ggml.tokens", "string", words)]))
    took = []
    for _ in range(3):
        begin = time.process_time()
        with read_gguf(path) as gguf:
            took.append(time.process_time() - begin)
            assert gguf.metadata["tokenizer.ggml.tokens"] == words
    assert min(took) < 0.5


def test_no_descriptor_is_left_open(write):
    def num_open():
        return len(os.listdir("/proc/self/fd"))

    good, before = write(small_model()), num_open()
    for _ in range(20):
        read_gguf(good).close()
    good.write_bytes(small_model()[:100])
    for _ in range(20):
        with pytest.raises(GGUFError):
            read_gguf(good)
    assert num_open() == before


def test_every_golden_model_agrees_with_the_reference_reader(shared_golden):
    """The `gguf` package, written by others, sees the same names, shapes, formats and bytes."""
    gguf_package = pytest.importorskip("gguf")
    files = sorted((shared_golden / "tiny").glob("*.gguf"))
    assert files
    for path in files:
        theirs = gguf_package.GGUFReader(path)
        with read_gguf(path) as ours:
            assert list(ours.tensors) == [t.name for t in theirs.tensors]
            for tensor in theirs.tensors:
                mine = ours.tensors[tensor.name]
                assert mine.shape == tuple(reversed(tensor.shape.tolist()))
                assert mine.quant == tensor.tensor_type.name
                assert mine.data.tobytes() == tensor.data.tobytes()
            for key, field in theirs.fields.items():
                if not key.startswith("GGUF."):
                    value = ours.metadata[key]
                    value = value.tolist() if isinstance(value, np.ndarray) else value
                    assert value == field.contents()
