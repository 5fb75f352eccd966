"""The reference backend compiles what it can run, and says what it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accel.backend import PAGE_LEN, Limits, StepBatch, run_step
from accel.errors import UnsupportedProgram
from accel.reference.backend import ReferenceBackend
from accel.reference.handlers import HANDLERS
from inference.model.architectures import record
from inference.model.gguf import read_gguf
from kernels.specs.ops import OPS
from kernels.specs.tensor import Part, Tensor, Weight
from tests.fakes.prompt_runs import one_slot_limits, prefill, run_rows
from tests.fakes.tiny_gguf import write_tiny_gguf

LIMITS = one_slot_limits(64)


def _ignore(phase, share):
    pass


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    with read_gguf(write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "m.gguf")) as file:
        yield record(file)[1]


def test_every_op_has_a_handler():
    assert set(HANDLERS) == set(OPS)


def test_it_works(program):
    """A step gives logits for the rows that want them, in their order."""
    executor = ReferenceBackend().compile(program, LIMITS, _ignore)
    tokens = [3, 1, 4, 1, 5]
    every = prefill(executor, tokens, LIMITS)
    batch = StepBatch(
        tokens=np.array(tokens, np.int32),
        positions=np.arange(5, dtype=np.int32),
        slots=np.zeros(5, np.int32),
        logit_rows=np.array([1, 4], np.int32),
        page_table=np.array([[0, 1]], np.int32),
    )
    some = run_step(executor, batch)
    assert some.shape == (2, program.vocab_size)
    assert some.dtype == np.float32
    np.testing.assert_array_equal(some, every[[1, 4]])


def test_a_step_without_logits(program):
    """The chunks of a prompt before its last want none."""
    executor = ReferenceBackend().compile(program, LIMITS, _ignore)
    whole = prefill(executor, [3, 1, 4], LIMITS)
    batch = StepBatch(
        tokens=np.array([3, 1], np.int32),
        positions=np.arange(2, dtype=np.int32),
        slots=np.zeros(2, np.int32),
        logit_rows=np.array([], np.int32),
        page_table=np.array([[1, 0]], np.int32),
    )
    assert run_step(executor, batch).shape == (0, program.vocab_size)
    np.testing.assert_array_equal(run_rows(executor, [4], 2, [[1, 0]])[0], whole[-1])


def test_progress_ends_at_one(program):
    shares = []
    ReferenceBackend().compile(program, LIMITS, lambda phase, share: shares.append(share))
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0


@pytest.mark.parametrize(("kv_type", "value_bytes"), [("f32", 4), ("f16", 2)])
def test_memory(program, kv_type, value_bytes):
    """Pages of keys and values for 2 layers of 2 heads of 32, and a tied table counted once."""
    limits = replace(LIMITS, kv_type=kv_type)
    memory = ReferenceBackend().compile(program, limits, _ignore).memory
    assert memory.kv_bytes == 2 * 2 * limits.num_pages * PAGE_LEN * 2 * 32 * value_bytes
    weights = {weight for op in program.ops for weight in op.weights}
    assert memory.weight_bytes == sum(weight.num_rows * weight.k * 4 for weight in weights)


def test_close_twice(program):
    executor = ReferenceBackend().compile(program, LIMITS, _ignore)
    executor.close()
    executor.close()
    assert executor.memory.weight_bytes == 0
    assert executor.memory.kv_bytes == 0


def _refusal(program, limits=LIMITS):
    with pytest.raises(UnsupportedProgram) as caught:
        ReferenceBackend().compile(program, limits, _ignore)
    return str(caught.value)


def test_refusals_name_what_is_unsupported(program):
    """A KV type, an op, an activation and a format that the backend has not."""
    assert "q3_0" in _refusal(program, Limits(8, 8, 1, 2, 2, "q3_0"))
    first, *rest = program.ops
    assert "convolve" in _refusal(replace(program, ops=(replace(first, kind="convolve"), *rest)))
    activated = replace(first, attrs={"activation": "relu"})
    assert "relu" in _refusal(replace(program, ops=(activated, *rest)))
    raw = Tensor("w", "IQ1_S", (1, 256), np.zeros(50, np.uint8))
    odd = replace(first, weights=(Weight("w", (Part(raw),)),))
    assert "w stored as IQ1_S" in _refusal(replace(program, ops=(odd, *rest)))
