"""Compiling for dies: what it admits, reports, counts and refuses, and that it gives everything back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accel.backend import run_step
from accel.cuda.backend import CudaBackend, plan_stages
from accel.errors import OutOfMemory, UnsupportedProgram
from accel.reference.backend import ReferenceBackend
from inference.model.builder import Builder
from inference.model.fusion import fuse
from kernels.specs.tensor import Part, Tensor, Weight
from tests.accel.cpu.models import (
    VOCAB_SIZE,
    Attention,
    attention_program,
    batch,
    float_weight,
    limits,
    run_prompt,
    shuffled_pages,
)
from tests.accel.cuda.models import compile_program, silent
from tests.kernels.cuda.test_attention_qkv import CLOSE

LIMITS = limits(64, num_slots=2)
PROGRAM = attention_program(Attention(), num_layers=4)
KINDS = ("weights", "kv", "buffers")


def test_bytes_are_known_before_a_die_is_opened(emulated):
    """What is admitted is what is allocated, to the byte, on every die."""
    emulated.reset(num_dies=2)
    admitted = {}
    executor = CudaBackend((0, 1), admitted.update).compile(PROGRAM, LIMITS, silent)
    plans = plan_stages(PROGRAM, LIMITS, 2)
    for ordinal, plan in enumerate(plans):
        assert admitted[ordinal] == plan.num_bytes(*KINDS)
        assert emulated.used_bytes(ordinal) == admitted[ordinal]
    memory = executor.memory
    assert memory.weight_bytes + memory.kv_bytes + memory.buffer_bytes == sum(admitted.values())
    executor.close()
    assert emulated.used_bytes(0) == emulated.used_bytes(1) == 0


def test_refused_admission_opens_no_die(emulated):
    """What `admit` raises goes through, and nothing was taken."""

    def refuse(num_bytes):
        raise OutOfMemory("the model", sum(num_bytes.values()))

    with pytest.raises(OutOfMemory):
        CudaBackend((0,), refuse).compile(PROGRAM, LIMITS, silent)
    assert emulated.num_contexts() == 0


def test_progress_goes_through_both_phases(emulated):
    """Shares of each phase rise from 0 to 1."""
    seen = {}
    compile_program(
        PROGRAM, LIMITS, progress=lambda phase, share: seen.setdefault(phase, []).append(share)
    ).close()
    assert list(seen) == ["compiling kernels", "uploading weights"]
    for shares in seen.values():
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.99])
def test_too_little_memory(emulated, share):
    """However far a load gets before memory runs out, every byte is back."""
    need = max(plan.num_bytes(*KINDS) for plan in plan_stages(PROGRAM, LIMITS, 2))
    emulated.reset(num_dies=2, memory_bytes=int(share * need))
    with pytest.raises(OutOfMemory, match="on die"):
        compile_program(PROGRAM, LIMITS, num_dies=2)
    assert emulated.used_bytes(0) == emulated.used_bytes(1) == 0
    assert emulated.num_contexts() == 0


def test_logits_of_the_rows_that_want_them(dies):
    """Any rows, in order; none at all gives an empty result."""
    dies(1)
    executor = compile_program(PROGRAM, LIMITS)
    table = shuffled_pages(LIMITS)
    ids, positions, slots = np.arange(12), np.arange(12), np.zeros(12)
    every = run_step(executor, batch(ids, positions, slots, np.arange(12), table)).copy()
    assert every.shape == (12, VOCAB_SIZE)
    some = run_step(executor, batch(ids, positions, slots, [2, 7, 11], table)).copy()
    np.testing.assert_array_equal(some, every[[2, 7, 11]])
    assert run_step(executor, batch(ids, positions, slots, [], table)).shape == (0, VOCAB_SIZE)
    executor.close()


def test_unlike_gate_and_up(dies):
    """Gate and up of two formats are two products and an op of their own."""
    dies(1)
    b = Builder()
    x = b.embed(float_weight(VOCAB_SIZE, 32, 1, scale=1.0))
    gate, up = (b.matmul(x, w) for w in (float_weight(64, 32, 2), half_weight(64, 32)))
    hidden = b.take_logit_rows(b.gated(gate, up, "silu"))
    plain = b.finish(b.matmul(hidden, float_weight(VOCAB_SIZE, 64, 3)))
    logits = []
    for backend in (CudaBackend((0,)), ReferenceBackend()):
        executor = backend.compile(fuse(plain), LIMITS, silent)
        logits.append(run_prompt(executor, np.arange(20), LIMITS, 20))
        executor.close()
    got, expected = logits
    np.testing.assert_allclose(got, expected, **CLOSE)


def half_weight(rows, k):
    values = np.random.default_rng(7).standard_normal((rows, k)).astype(np.float16)
    return Weight(
        "halves", (Part(Tensor("t", "F16", (rows, k), values.reshape(-1).view(np.uint8))),)
    )


@pytest.mark.parametrize(
    ("program", "changes", "what"),
    [
        (PROGRAM, {"kv_type": "q2"}, "KV cache of type q2"),
        (
            attention_program(Attention(head_dim=48)),
            {"kv_type": "q8_0"},
            "heads of 48 values, no multiple of 32; use f16",
        ),
        (attention_program(Attention(head_dim=24)), {}, "heads of 24 values"),
        (attention_program(Attention(), width=48), {}, "rows of 48"),
    ],
)
def test_refusals(program, changes, what):
    """What no kernel takes is refused by name, before a die is touched."""
    with pytest.raises(UnsupportedProgram, match=what):
        plan_stages(program, replace(LIMITS, **changes), 1)


def test_more_dies_than_layers():
    with pytest.raises(UnsupportedProgram, match="on 40 dies"):
        plan_stages(PROGRAM, LIMITS, 40)
