"""The reference backend computes what llama.cpp and transformers compute in float32.

Tolerances are those of tests/golden/README.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from accel.reference.backend import ReferenceBackend
from inference.model.architectures import record
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from tests.conftest import GOLDEN, SHARED
from tests.fakes.prompt_runs import (
    PROMPTS,
    compare,
    first_difference,
    greedy,
    one_slot_limits,
    prefill,
)

FLOAT, GELU_TABLE, HALF_KV = 2e-3, 3e-2, 5e-2
OTHER_ARCHITECTURES = ("granite", "llama-moe", "phi3", "qwen35", "qwen3moe")
NUM_GREEDY = 32


def _models(folder):
    names = sorted(path.stem for path in (folder / "tiny").glob("*.gguf"))
    return [name for name in names if not name.startswith(OTHER_ARCHITECTURES)]


OWN = _models(GOLDEN)
FULL = [name for name in _models(SHARED / "golden") if name not in OWN]


def _float_tolerance(name):
    return GELU_TABLE if name.startswith("gemma3") else FLOAT


def _reference(folder, name):
    """An f32 file holds the weights of the f16 one, and shares its reference."""
    path = folder / "tiny" / f"{name}.npz"
    return np.load(path if path.exists() else path.with_name(f"{name.replace('f32', 'f16')}.npz"))


def _executor(folder, name, kv_type, limits_for=400, fused=True):
    limits = one_slot_limits(limits_for, kv_type)
    with read_gguf(folder / "tiny" / f"{name}.gguf") as file:
        _, program = record(file)
        program = fuse(program) if fused else program
        return ReferenceBackend().compile(program, limits, lambda phase, share: None), limits


def _check_float(folder, name):
    """Every position of every prompt, and 32 greedy tokens after each."""
    tolerance = _float_tolerance(name)
    executor, limits = _executor(folder, name, "f32")
    with _reference(folder, name) as reference:
        for prompt in PROMPTS:
            tokens = reference[f"ids/{prompt}"].tolist()
            key = f"exact/kvf32/{prompt}"
            got = compare(prefill(executor, tokens, limits), reference, key)
            assert got.max_diff <= tolerance, (prompt, got)
            assert got.largest_margin_where_wrong < 2 * tolerance, (prompt, got)
            left = first_difference(greedy(executor, tokens, NUM_GREEDY, limits), reference, key)
            assert left is None or left[1] < 2 * tolerance, (prompt, left)


def _check_half_kv(folder, name):
    """Keys and values rounded to half floats: near the same rounding elsewhere."""
    executor, limits = _executor(folder, name, "f16")
    with _reference(folder, name) as reference:
        for prompt in PROMPTS:
            tokens = reference[f"ids/{prompt}"].tolist()
            got = compare(prefill(executor, tokens, limits), reference, f"exact/kvf16/{prompt}")
            assert got.max_diff <= HALF_KV, (prompt, got)


@pytest.mark.parametrize("name", OWN)
def test_float(golden, name):
    _check_float(golden, name)


@pytest.mark.parametrize("name", OWN)
def test_half_keys_and_values(golden, name):
    _check_half_kv(golden, name)


@pytest.mark.parametrize("name", FULL)
def test_float_full_set(shared_golden, name):
    _check_float(shared_golden, name)


@pytest.mark.parametrize("name", FULL)
def test_half_keys_and_values_full_set(shared_golden, name):
    _check_half_kv(shared_golden, name)


@pytest.mark.parametrize("name", ["gemma3-scaled.f16", "llama-rope-llama3.f16", "qwen2.f16"])
def test_unfused_programs_too(golden, name):
    """The recorded program, before any rewrite, meets the same reference."""
    executor, limits = _executor(golden, name, "f32", fused=False)
    with _reference(golden, name) as reference:
        tokens = reference["ids/english"].tolist()
        got = compare(prefill(executor, tokens, limits), reference, "exact/kvf32/english")
    assert got.max_diff <= _float_tolerance(name)


def _check_transformers(executor, limits, reference, stem, tokens_of):
    for prompt in PROMPTS:
        logits = prefill(executor, tokens_of[f"ids/{prompt}"].tolist(), limits)
        got = compare(logits, reference, f"{stem}/{prompt}")
        assert got.max_diff <= FLOAT, (prompt, got)


def test_gemma_against_transformers(golden):
    """With exact GELU on both sides gemma3 is as close as the others."""
    executor, limits = _executor(golden, "gemma3-scaled.f16", "f32")
    with _reference(golden, "gemma3-scaled.f16") as reference:
        _check_transformers(executor, limits, reference, "transformers", reference)


def test_gemma_against_transformers_full_set(shared_golden):
    executor, limits = _executor(shared_golden, "gemma3.f16", "f32")
    with (
        np.load(shared_golden / "tiny" / "xcheck_transformers.npz") as reference,
        _reference(shared_golden, "gemma3.f16") as prompts,
    ):
        _check_transformers(executor, limits, reference, "gemma3", prompts)


def test_the_data_can_tell(golden):
    """A rope base 5 % off is far outside the tolerance: the comparison is able to fail."""
    with read_gguf(golden / "tiny" / "qwen2.f16.gguf") as file:
        metadata = {**file.metadata, "qwen2.rope.freq_base": 1_050_000.0}
        _, program = record(_File(metadata, file.tensors))
        limits = one_slot_limits(400, "f32")
        executor = ReferenceBackend().compile(program, limits, lambda phase, share: None)
    with _reference(golden, "qwen2.f16") as reference:
        logits = prefill(executor, reference["ids/english"].tolist(), limits)
        assert compare(logits, reference, "exact/kvf32/english").max_diff > 10 * FLOAT


class _File:
    """Metadata and tensors without a file."""

    def __init__(self, metadata, tensors):
        self.metadata, self.tensors = metadata, tensors
