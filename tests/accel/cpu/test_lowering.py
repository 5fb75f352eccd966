"""Ops and their combinations become kernels that compute what the reference backend computes."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cpu.backend import CpuBackend
from accel.errors import UnsupportedProgram
from accel.reference.backend import ReferenceBackend
from inference.model.builder import Builder
from inference.model.fusion import fuse
from kernels.specs.program import Op, Program
from kernels.specs.tensor import Part, Tensor, Weight
from tests.accel.cpu.models import (
    VOCAB_SIZE,
    Attention,
    attention_program,
    float_tensor,
    float_weight,
    limits,
    run_prompt,
    silent,
    vector,
)

WIDTH = 64
ROWS = 21
EMBEDDING = float_weight(VOCAB_SIZE, WIDTH, 1, scale=1.0)


def quantised(rows, k, seed):
    """Q8_0 rows: 32 values and a float16 scale a block."""
    rng = np.random.default_rng(seed)
    blocks = np.zeros((rows, k // 32), [("d", "<f2"), ("q", "i1", (32,))])
    blocks["d"] = k**-0.5 / 60
    blocks["q"] = rng.integers(-127, 128, (rows, k // 32, 32))
    return Tensor(f"q{seed}", "Q8_0", (rows, k), blocks.reshape(-1).view(np.uint8))


def weight(*tensors):
    return Weight("+".join(t.name for t in tensors), tuple(Part(t) for t in tensors))


def finish(b, x, out=None):
    return b.finish(b.matmul(b.take_logit_rows(x), out or float_weight(VOCAB_SIZE, WIDTH, 2)))


def residual_read_later(b, x):
    y = b.add(b.matmul(x, float_weight(WIDTH, WIDTH, 3)), x)
    return finish(b, b.add(y, x))


def residual_in_place(b, x):
    for seed in range(3, 6):
        x = b.add(b.matmul(x, float_weight(WIDTH, WIDTH, seed)), x)
    return finish(b, x)


def norms_only(b, x):
    """Rows that only row ops read stay private to a thread in a narrow step."""
    for seed in range(3, 7):
        x = b.add(b.rms_norm(x, vector(WIDTH, seed, mean=1.0), 1e-5), x)
    return finish(b, x)


def softcapped(b, x):
    logits = b.matmul(b.take_logit_rows(x), float_weight(VOCAB_SIZE, WIDTH, 2, scale=1.0))
    return b.finish(b.softcap(logits, 5.0))


def biased(b, x):
    return finish(b, b.add_bias(x, vector(WIDTH, 3)))


def gate(b, x, gate_weight, up_weight, activation):
    hidden = b.gated(b.matmul(x, gate_weight), b.matmul(x, up_weight), activation)
    return finish(b, b.matmul(hidden, float_weight(WIDTH, 96, 5)))


def silu(b, x):
    return gate(b, x, float_weight(96, WIDTH, 3), float_weight(96, WIDTH, 4), "silu")


def gelu(b, x):
    return gate(b, x, float_weight(96, WIDTH, 3), float_weight(96, WIDTH, 4), "gelu")


def gate_and_up_in_two_formats(b, x):
    return gate(b, x, float_weight(96, WIDTH, 3), weight(quantised(96, WIDTH, 4)), "gelu")


def gate_of_other_ops(b, x):
    """A gate whose inputs are no matmuls stays an op of its own."""
    return finish(b, b.gated(x, b.add_bias(x, vector(WIDTH, 3)), "silu"))


def stacked_in_two_formats(b, x):
    """Float and quantised rows in one weight: both forms of the input are made."""
    stacked = weight(float_tensor(32, WIDTH, 3), quantised(32, WIDTH, 4))
    return finish(b, b.matmul(b.rms_norm(x, vector(WIDTH, 6, mean=1.0), 1e-5), stacked))


def quantised_down(b, x):
    """A quantised matmul of a gated one's output."""
    up, gate_weight = float_weight(96, WIDTH, 3), float_weight(96, WIDTH, 4)
    hidden = b.gated(b.matmul(x, gate_weight), b.matmul(x, up), "silu")
    return finish(b, b.matmul(hidden, weight(quantised(WIDTH, 96, 5))))


def tied(b, x):
    """The embedding table is the output matrix too, and stored once."""
    return finish(b, b.rms_norm(x, vector(WIDTH, 3, mean=1.0), 1e-5), EMBEDDING)


def norm_of_logit_rows(b, x):
    x = b.rms_norm(b.take_logit_rows(x), vector(WIDTH, 3, mean=1.0), 1e-5)
    return b.finish(b.matmul(x, weight(quantised(VOCAB_SIZE, WIDTH, 4))))


FLOAT_CASES = [
    residual_read_later,
    residual_in_place,
    norms_only,
    softcapped,
    biased,
    silu,
    gelu,
    gate_of_other_ops,
    tied,
]
QUANTISED_CASES = [
    gate_and_up_in_two_formats,
    stacked_in_two_formats,
    quantised_down,
    norm_of_logit_rows,
]


def program(record):
    b = Builder()
    return fuse(record(b, b.embed(EMBEDDING, scale=1.5)))


def logits(backend, made, num_threads, chunk_len):
    of = limits(32, num_threads, max_rows=32, max_logit_rows=32, num_slots=1)
    executor = backend.compile(made, of, silent)
    out = run_prompt(executor, np.arange(ROWS) * 3, of, chunk_len)
    executor.close()
    return out


@pytest.mark.parametrize("record", FLOAT_CASES)
@pytest.mark.parametrize("chunk_len", [1, 5, ROWS])
def test_float_weights(record, chunk_len):
    """Narrow and wide steps, to float32's rounding."""
    wanted = logits(ReferenceBackend(), program(record), 1, ROWS)
    got = logits(CpuBackend(), program(record), 2, chunk_len)
    np.testing.assert_allclose(got, wanted, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("record", QUANTISED_CASES)
@pytest.mark.parametrize("chunk_len", [1, 5, ROWS])
def test_quantised_weights(record, chunk_len):
    """To the rounding of activations: about half a percent of their largest value."""
    wanted = logits(ReferenceBackend(), program(record), 1, ROWS)
    got = logits(CpuBackend(), program(record), 2, chunk_len)
    np.testing.assert_allclose(got, wanted, atol=0.02 * np.abs(wanted).max())


def test_tied_weights_are_stored_once():
    """Memory for weights counts the shared table once."""
    of = limits(32, num_slots=1)
    executor = CpuBackend().compile(program(tied), of, silent)
    num_bytes = executor.memory.weight_bytes
    executor.close()
    assert num_bytes == -(-VOCAB_SIZE // 16) * 16 * WIDTH * 4


def refused(made, **changes):
    of = limits(32, num_slots=1)
    of = type(of)(**{**vars(of), **changes})
    with pytest.raises(UnsupportedProgram) as caught:
        CpuBackend().compile(made, of, silent)
    return caught.value.what


class TestRefusals:
    """What has no kernel is refused by name before anything is packed."""

    def test_ops(self):
        made = attention_program(Attention())
        odd = Op("convolve", (), made.ops[0].output)
        what = refused(Program((*made.ops, odd), made.logits, made.kv_layers, made.vocab_size))
        assert what == "the op convolve"

    def test_unfused_attention(self):
        b = Builder()
        x = b.embed(EMBEDDING)
        q, k, v = (b.matmul(x, float_weight(32, WIDTH, seed)) for seed in (3, 4, 5))
        a = b.attention(q, k, v, head_dim=16)
        made = b.finish(b.matmul(a, float_weight(VOCAB_SIZE, 32, 6)))
        assert refused(made) == "the op attention"

    def test_head_sizes(self):
        assert refused(attention_program(Attention(2, 2, 24))) == "attention heads of 24 values"

    def test_activations(self):
        def relu(b, x):
            return finish(b, b.gated(x, x, "relu"))

        assert refused(program(relu)) == "the activation relu"

    def test_kv_types(self):
        assert refused(program(tied), kv_type="q2") == "a KV cache of type q2"

    def test_weight_formats(self):
        tensor = Tensor("w", "NVFP4", (VOCAB_SIZE, WIDTH), np.zeros(64, np.uint8))

        def odd(b, x):
            return finish(b, x, weight(tensor))

        assert "NVFP4" in refused(program(odd))
