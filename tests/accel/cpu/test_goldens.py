"""The CPU backend computes what llama.cpp computes, within what rounding activations to int8 costs.

Tolerances: with float weights the row of half-float keys and values of tests/golden/README.md; with
quantised weights, whose inputs are rounded, statistics over all positions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.accel.cpu.models import compile_file, limits, run_prompt
from tests.conftest import GOLDEN, SHARED
from tests.fakes.prompt_runs import PROMPTS, compare

HALF_KV = 5e-2
ERROR_P50, ERROR_P99, AGREEMENT, MEAN_KL = 0.6, 1.2, 0.85, 0.02
FLOATS = ("f16", "f32", "BF16")
OTHER_ARCHITECTURES = ("granite", "llama-moe", "phi3", "qwen35", "qwen3moe")
LIMITS = limits(300, num_slots=1)


def models(folder):
    names = sorted(path.stem for path in (folder / "tiny").glob("*.gguf"))
    return [name for name in names if not name.startswith(OTHER_ARCHITECTURES)]


OWN = models(GOLDEN)
HEADS_OF_48 = ("gemma3-scaled.f16",)  # no multiple of a block of 32
FULL = [name for name in models(SHARED / "golden") if name not in OWN]


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def check(folder, name, limits=LIMITS):
    # An f32 file holds the weights of the f16 one, and shares its reference.
    path = folder / "tiny" / f"{name}.npz"
    path = path if path.exists() else path.with_name(f"{name.replace('f32', 'f16')}.npz")
    executor = compile_file(folder / "tiny" / f"{name}.gguf", limits)
    with np.load(path) as reference:
        logits = {p: run_prompt(executor, reference[f"ids/{p}"], limits, 64) for p in PROMPTS}
        executor.close()
        if name.endswith(FLOATS) and limits.kv_type == "f16":
            for prompt in PROMPTS:
                got = compare(logits[prompt], reference, f"exact/kvf16/{prompt}")
                assert got.max_diff <= HALF_KV, (prompt, got)
        else:
            check_statistics(logits, reference)


def check_statistics(logits, reference):
    errors, agreements, divergences = [], [], []
    for prompt in PROMPTS:
        key = f"exact/kvf16/{prompt}"
        top_ids = reference[f"{key}/top_ids"].astype(np.int64)
        got = logits[prompt].astype(np.float64)
        difference = np.take_along_axis(got, top_ids, -1) - reference[f"{key}/top_logits"]
        errors.extend(np.abs(difference).max(-1))
        agreements.extend(got.argmax(-1) == top_ids[:, 0])
        wanted = log_softmax(reference[f"{key}/last_logits"].astype(np.float64))
        divergences.append((np.exp(wanted) * (wanted - log_softmax(got[-1]))).sum())
    assert np.median(errors) <= ERROR_P50
    assert np.quantile(errors, 0.99) <= ERROR_P99
    assert np.mean(agreements) >= AGREEMENT
    assert np.mean(divergences) <= MEAN_KL


@pytest.mark.parametrize("name", OWN)
def test_own(golden, name):
    check(golden, name)


@pytest.mark.parametrize("name", [name for name in OWN if name not in HEADS_OF_48])
def test_keys_and_values_of_8_bits(golden, name):
    """Stay within what rounding the weights' inputs to 8 bits may cost."""
    check(golden, name, replace(LIMITS, kv_type="q8_0"))


@pytest.mark.parametrize("name", FULL)
def test_full_set(shared_golden, name):
    check(shared_golden, name)
