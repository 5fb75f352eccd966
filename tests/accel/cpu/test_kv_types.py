"""Keys and values in other types than f16: the reference's rounding, always the same bits, memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accel.cpu.backend import CpuBackend
from accel.errors import UnsupportedProgram
from accel.reference.backend import ReferenceBackend
from tests.accel.cpu.models import VOCAB_SIZE, Attention, attention_program, run_prompt, silent
from tests.accel.cpu.models import limits as f16_limits

LONG = 300  # positions: two runs
TYPES = ("f32", "q8_0", "q4_0")
SHAPES = {
    "three heads a group": Attention(9, 3, 64),
    "head of 32": Attention(2, 2, 32),
    "head of 256": Attention(4, 1, 256),
    "window": Attention(4, 2, 96, window=40, bias=True, norm=True),
}


def limits(kv_type, num_threads=2):
    of = f16_limits(LONG, num_threads, max_rows=LONG, max_logit_rows=LONG, num_slots=1)
    return replace(of, kv_type=kv_type)


def tokens():
    return np.random.default_rng(0).integers(0, VOCAB_SIZE, LONG)


def logits(backend, spec, of, chunk_len=LONG):
    executor = backend.compile(attention_program(spec), of, silent)
    got = run_prompt(executor, tokens(), of, chunk_len)
    executor.close()
    return got


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kv_type", TYPES)
def test_matches_the_reference(kv_type, spec):
    """But for values on the edge between two steps of 8 or 4 bits, which fall to either side."""
    error = np.abs(
        logits(CpuBackend(), spec, limits(kv_type))
        - logits(ReferenceBackend(), spec, limits(kv_type))
    )
    assert np.median(error) < 1e-5
    assert error.max() < (1e-3 if kv_type == "f32" else 0.1)


@pytest.mark.parametrize("kv_type", TYPES)
def test_same_bits(kv_type):
    """Whatever the chunks and the number of threads."""
    spec, first = Attention(9, 3, 64), None
    for num_threads in (1, 3):
        for chunk_len in (1, 7, LONG):
            got = logits(CpuBackend(), spec, limits(kv_type, num_threads), chunk_len)
            first = got if first is None else first
            np.testing.assert_array_equal(got, first, err_msg=f"{num_threads=} {chunk_len=}")


def test_memory():
    """17, 9 and 64 bytes where float16 takes 32."""
    used = {}
    for kv_type in ("f16", *TYPES):
        executor = CpuBackend().compile(
            attention_program(Attention(4, 2, 64)), limits(kv_type), silent
        )
        used[kv_type] = executor.memory.kv_bytes
        executor.close()
    assert used["q8_0"] * 32 == used["f16"] * 17
    assert used["q4_0"] * 32 == used["f16"] * 9
    assert used["f32"] == used["f16"] * 2


def test_heads_that_blocks_do_not_divide():
    """Are refused, in words that say what to do."""
    program = attention_program(Attention(2, 2, 48))
    with pytest.raises(UnsupportedProgram, match=r"no multiple of 32; use f16"):
        CpuBackend().compile(program, limits("q8_0"), silent)
