"""Fusion makes fewer ops of the same meaning, and leaves alone what it cannot fuse."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from accel.reference.backend import ReferenceBackend
from inference.model.architectures import ARCHITECTURES, record
from inference.model.builder import Builder
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from kernels.specs.ops import OPS
from kernels.specs.tensor import Part, RopeTable, Tensor, Vector, Weight
from tests.fakes.prompt_runs import one_slot_limits, prefill
from tests.fakes.tiny_gguf import TinyShape, write_tiny_gguf

WIDTH, HEAD_DIM = 8, 4
TOKENS = [5, 1, 3, 3, 0, 6, 2, 7, 4]


def _matrix(rows, k, seed):
    values = np.random.default_rng(seed).standard_normal((rows, k)).astype(np.float32)
    name = f"m{seed}"
    return Weight(name, (Part(Tensor(name, "F32", (rows, k), values.reshape(-1).view(np.uint8))),))


def _vector(n, seed):
    values = np.random.default_rng(100 + seed).standard_normal(n).astype(np.float32)
    return Vector(f"v{seed}", values)


def _logits(program, tokens=TOKENS):
    limits = one_slot_limits(len(tokens))
    executor = ReferenceBackend().compile(program, limits, lambda phase, share: None)
    return prefill(executor, tokens, limits)


def _kinds(program):
    return Counter(op.kind for op in program.ops)


def _check_well_formed(program):
    made = set()
    for op in program.ops:
        spec = OPS[op.kind]
        assert len(op.inputs) in spec.num_inputs
        assert len(op.weights) == spec.num_weights
        assert set(op.vectors) <= set(spec.vectors)
        assert set(op.attrs) == set(spec.attrs)
        assert {buffer.index for buffer in op.inputs} <= made
        assert op.output.index not in made
        made.add(op.output.index)
    assert program.logits.index in made


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
@pytest.mark.parametrize("tied", [True, False])
def test_fused_programs_mean_the_same(tmp_path, arch, tied):
    """Each architecture's fused program gives the logits of its recorded one."""
    path = write_tiny_gguf(tmp_path / "m.gguf", arch, "F32", TinyShape(num_layers=7, tied=tied))
    with read_gguf(path) as file:
        _, program = record(file)
        fused = fuse(program)
        _check_well_formed(fused)
        tokens = np.random.default_rng(3).integers(0, 256, 40).tolist()
        np.testing.assert_allclose(_logits(fused, tokens), _logits(program, tokens), atol=1e-5)


def test_a_llama_layer_is_seven_ops(tmp_path):
    """Norm, QKV, attention, output, norm, gate and up, down; and three ops around the layers."""
    with read_gguf(write_tiny_gguf(tmp_path / "m.gguf")) as file:
        kinds = _kinds(fuse(record(file)[1]))
    assert kinds == {
        "embed": 1,
        "rms_norm": 4,
        "matmul": 3,
        "attention_qkv": 2,
        "matmul_add": 4,
        "matmul_gated": 2,
        "take_rms_norm": 1,
    }


def test_gemma_adds_after_its_norms(tmp_path):
    with read_gguf(write_tiny_gguf(tmp_path / "m.gguf", "gemma3")) as file:
        kinds = _kinds(fuse(record(file)[1]))
    assert kinds["rms_norm_add"] == 4
    assert kinds["add"] == kinds["head_rms_norm"] == kinds["rope"] == 0


def test_parts_keep_their_formats(tmp_path):
    """Queries, keys and values of different formats are stacked, not converted."""
    b = Builder()
    x = b.embed(_matrix(8, WIDTH, 0))
    half = np.zeros((WIDTH, WIDTH), np.float16).reshape(-1).view(np.uint8)
    half_matrix = Weight("h", (Part(Tensor("h", "F16", (WIDTH, WIDTH), half)),))
    y = _attention(b, x, v_weight=half_matrix)
    fused = fuse(b.finish(y))
    assert fused.ops[1].weights[0].quants == ("F32", "F32", "F16")


def _attention(b, x, *, v_weight=None, v_input=None, k_rope=None, biases="", norms="", eps=1e-5):
    """Attention of x with the given ops on the way of q, k and v."""
    rope = RopeTable(np.array([1.0, 0.1]))
    inputs = []
    for seed, name in enumerate("qkv", start=1):
        weight = v_weight if name == "v" and v_weight else _matrix(WIDTH, WIDTH, seed)
        y = b.matmul(v_input if name == "v" and v_input else x, weight)
        if name in biases:
            y = b.add_bias(y, _vector(WIDTH, seed))
        if name in norms:
            y = b.head_rms_norm(y, _vector(HEAD_DIM, 10 + seed), eps if name == "q" else 1e-5)
        if name != "v":
            y = b.rope(y, HEAD_DIM, k_rope if name == "k" and k_rope else rope)
        inputs.append(y)
    return b.attention(*inputs, head_dim=HEAD_DIM)


@pytest.mark.parametrize(
    ("options", "vectors"),
    [
        ({}, set()),
        ({"biases": "qkv"}, {"bias"}),
        ({"norms": "qk"}, {"q_gain", "k_gain"}),
        ({"biases": "qkv", "norms": "qk"}, {"bias", "q_gain", "k_gain"}),
    ],
)
def test_attention_takes_what_lies_on_the_way(options, vectors):
    b = Builder()
    program = b.finish(_attention(b, b.embed(_matrix(8, WIDTH, 0)), **options))
    fused = fuse(program)
    assert [op.kind for op in fused.ops] == ["embed", "matmul", "attention_qkv"]
    assert set(fused.ops[2].vectors) == vectors
    np.testing.assert_allclose(_logits(fused), _logits(program), atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"biases": "qk"},
        {"norms": "q"},
        {"norms": "qkv"},
        {"norms": "qk", "eps": 1e-3},
        {"k_rope": RopeTable(np.array([1.0, 0.5]))},
    ],
)
def test_attention_that_treats_its_inputs_unalike_stays(options):
    """What the fused op could not express is left as it was."""
    b = Builder()
    program = b.finish(_attention(b, b.embed(_matrix(8, WIDTH, 0)), **options))
    fused = fuse(program)
    assert _kinds(fused) == _kinds(program)
    np.testing.assert_array_equal(_logits(fused), _logits(program))


def test_values_of_another_input_stay_apart():
    b = Builder()
    x = b.embed(_matrix(8, WIDTH, 0))
    other = b.rms_norm(x, _vector(WIDTH, 0), 1e-5)
    program = b.finish(_attention(b, x, v_input=other))
    assert "attention_qkv" not in _kinds(fuse(program))


def test_buffers_with_other_readers_stay():
    """A matmul that is added twice is computed once, and so are queries that are read elsewhere."""
    b = Builder()
    x = b.embed(_matrix(8, WIDTH, 0))
    y = b.matmul(x, _matrix(WIDTH, WIDTH, 1))
    program = b.finish(b.add(b.add(y, x), y))
    assert _kinds(fuse(program)) == {"embed": 1, "matmul": 1, "add": 2}
    np.testing.assert_array_equal(_logits(fuse(program)), _logits(program))


def test_logits_count_as_a_reader():
    """A buffer that is the model's result is not absorbed by a later op."""
    b = Builder()
    x = b.embed(_matrix(8, WIDTH, 0))
    y = b.matmul(x, _matrix(WIDTH, WIDTH, 1))
    b.add(y, x)
    assert "matmul_add" not in _kinds(fuse(b.finish(y)))


@pytest.mark.parametrize("swapped", [False, True])
def test_the_residual_is_the_second_input(swapped):
    """Whichever side of the addition it stood on."""
    b = Builder()
    x = b.embed(_matrix(8, WIDTH, 0))
    y = b.matmul(x, _matrix(WIDTH, WIDTH, 1))
    program = b.finish(b.add(x, y) if swapped else b.add(y, x))
    fused = fuse(program)
    assert fused.ops[1].kind == "matmul_add"
    assert fused.ops[1].inputs == (x, x)
    np.testing.assert_array_equal(_logits(fused), _logits(program))


def test_a_sum_of_two_products_absorbs_one():
    b = Builder()
    x = b.embed(_matrix(8, WIDTH, 0))
    y, z = b.matmul(x, _matrix(WIDTH, WIDTH, 1)), b.matmul(x, _matrix(WIDTH, WIDTH, 2))
    program = b.finish(b.add(y, z))
    assert _kinds(fuse(program)) == {"embed": 1, "matmul": 1, "matmul_add": 1}
    np.testing.assert_array_equal(_logits(fuse(program)), _logits(program))


def test_gates_of_different_inputs_stay_apart():
    b = Builder()
    x = b.embed(_matrix(8, WIDTH, 0))
    z = b.rms_norm(x, _vector(WIDTH, 0), 1e-5)
    gate, up = b.matmul(x, _matrix(WIDTH, WIDTH, 1)), b.matmul(z, _matrix(WIDTH, WIDTH, 2))
    assert "gated" in _kinds(fuse(b.finish(b.gated(gate, up, "silu"))))
