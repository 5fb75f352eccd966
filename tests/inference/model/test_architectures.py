"""A model file becomes a program, or is refused by name."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from inference.model import gemma3
from inference.model.architectures import ARCHITECTURES, record
from inference.model.config import ModelConfig
from inference.model.errors import ModelError
from inference.model.gguf import read_gguf
from kernels.specs.ops import OPS
from tests.fakes.tiny_gguf import TinyShape, vocabulary, write_tiny_gguf


class File:
    """Metadata and tensors without a file."""

    def __init__(self, metadata, tensors):
        self.metadata, self.tensors = metadata, tensors


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "llama.gguf")


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_it_works(tmp_path, arch):
    """Every op has the inputs, weights, vectors and attributes that its specification lists."""
    with read_gguf(write_tiny_gguf(tmp_path / "m.gguf", arch, "Q8_0")) as file:
        config, program = record(file)
        made = set()
        for op in program.ops:
            spec = OPS[op.kind]
            assert len(op.inputs) in spec.num_inputs
            assert len(op.weights) == spec.num_weights
            assert set(op.vectors) == set(spec.vectors)
            assert set(op.attrs) == set(spec.attrs)
            assert {buffer.index for buffer in op.inputs} <= made
            assert op.output.index not in made
            made.add(op.output.index)
        assert program.logits.index in made
        assert program.vocab_size == config.vocab_size == len(vocabulary())
        assert len(program.kv_layers) == config.num_layers == 2
        assert not any(spec.fused for spec in (OPS[op.kind] for op in program.ops))


def test_a_tied_output_is_the_embedding(tiny):
    with read_gguf(tiny) as file:
        _, program = record(file)
        assert program.ops[0].weights[0] is program.ops[-1].weights[0]


def test_an_output_of_its_own(tmp_path):
    path = write_tiny_gguf(tmp_path / "m.gguf", shape=TinyShape(tied=False))
    with read_gguf(path) as file:
        _, program = record(file)
        assert program.ops[-1].weights[0].name == "output"


@pytest.mark.parametrize("arch", ["phi3", "llama4", "", None])
def test_an_unknown_architecture(tiny, arch):
    """The refusal names the architecture and lists those that are supported."""
    with read_gguf(tiny) as file:
        metadata = {**file.metadata, "general.architecture": arch}
        with pytest.raises(ModelError) as caught:
            record(File(metadata, file.tensors))
    assert caught.value.field == "general.architecture"
    if arch:
        assert arch in str(caught.value)
        assert "qwen3" in str(caught.value)


def test_every_tensor_is_needed(tiny):
    """Without any one of its tensors the file is refused by that tensor's name."""
    with read_gguf(tiny) as file:
        for name in file.tensors:
            rest = {other: tensor for other, tensor in file.tensors.items() if other != name}
            with pytest.raises(ModelError) as caught:
                record(File(file.metadata, rest))
            assert caught.value.field == name


def test_a_tensor_too_many(tiny):
    """A bias that llama would not add is refused, not dropped."""
    with read_gguf(tiny) as file:
        extra = {**file.tensors, "blk.0.attn_q.bias": file.tensors["output_norm.weight"]}
        with pytest.raises(ModelError) as caught:
            record(File(file.metadata, extra))
    assert caught.value.field == "blk.0.attn_q.bias"


def test_layers_beyond_the_file(tiny):
    """More layers in metadata than in tensors names the first tensor that is absent."""
    with read_gguf(tiny) as file:
        metadata = {**file.metadata, "llama.block_count": 3}
        with pytest.raises(ModelError) as caught:
            record(File(metadata, file.tensors))
    assert caught.value.field == "blk.2.attn_norm.weight"


def test_llama_rotates_whole_heads(tiny):
    """Rows are reordered pair by pair, which a partial rotation would not survive."""
    with read_gguf(tiny) as file:
        metadata = {**file.metadata, "llama.rope.dimension_count": 16}
        with pytest.raises(ModelError) as caught:
            record(File(metadata, file.tensors))
    assert caught.value.field == "llama.rope.dimension_count"


@pytest.mark.parametrize(("num_layers", "wanted"), [(26, 256**-0.5), (62, 168**-0.5)])
def test_gemma_attention_scale(num_layers, wanted):
    """27B alone, known by its layers, scales by width / heads."""
    metadata = {
        "general.architecture": "gemma3",
        "gemma3.block_count": num_layers,
        "gemma3.context_length": 256,
        "gemma3.embedding_length": 5376,
        "gemma3.feed_forward_length": 128,
        "gemma3.attention.head_count": 32,
        "gemma3.attention.key_length": 256,
        "gemma3.attention.value_length": 256,
        "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
        "gemma3.vocab_size": 8,
    }
    config = ModelConfig.from_metadata(metadata)
    assert gemma3.attention_scale(config) == pytest.approx(wanted)


def test_the_fake_model_file_is_what_the_gguf_package_reads(tiny):
    """The file that other tests build on is readable by the format's own package."""
    reader = gguf.GGUFReader(tiny)
    tensor = next(t for t in reader.tensors if t.name == "blk.1.ffn_down.weight")
    assert tuple(tensor.shape) == (128, 64)
    assert np.isfinite(tensor.data.astype(np.float32)).all()
