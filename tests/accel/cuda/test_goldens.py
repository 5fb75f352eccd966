"""The CUDA backend computes what llama.cpp and transformers compute, whatever the weights are stored as.

Activations stay float32 on dies, so with float32 keys and values the tolerance of float32 engines holds for
all formats, and with half floats that of half-float keys and values (tests/golden/README.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.accel.cpu.models import limits, run_prompt
from tests.accel.cuda.models import compile_file
from tests.conftest import GOLDEN, SHARED
from tests.fakes.prompt_runs import PROMPTS, compare

FLOAT, GELU_TABLE, HALF_KV = 2e-3, 3e-2, 5e-2
OTHER_ARCHITECTURES = ("granite", "llama-moe", "phi3", "qwen35", "qwen3moe")
LIMITS = limits(300, num_slots=1)
FLOAT_LIMITS = replace(LIMITS, kv_type="f32")


def models(folder):
    names = sorted(path.stem for path in (folder / "tiny").glob("*.gguf"))
    return [name for name in names if not name.startswith(OTHER_ARCHITECTURES)]


OWN = models(GOLDEN)
FULL = [name for name in models(SHARED / "golden") if name not in OWN]
# One architecture each, in two mixes: what several dies must not change.
SPLIT = ["gemma3-scaled.f16", "llama-tied-spm.Q4_K", "qwen2.f16", "qwen3.Q8_0"]


def tolerance(name, kv_type):
    if kv_type == "f16":
        return HALF_KV
    return GELU_TABLE if name.startswith("gemma3") else FLOAT


def check(folder, name, num_dies, limits, prompts=PROMPTS):
    """Every position of the prompts."""
    # An f32 file holds the weights of the f16 one, and shares its reference.
    path = folder / "tiny" / f"{name}.npz"
    path = path if path.exists() else path.with_name(f"{name.replace('f32', 'f16')}.npz")
    allowed = tolerance(name, limits.kv_type)
    executor = compile_file(folder / "tiny" / f"{name}.gguf", limits, num_dies)
    with np.load(path) as reference:
        for prompt in prompts:
            logits = run_prompt(executor, reference[f"ids/{prompt}"], limits, 64)
            got = compare(logits, reference, f"exact/kv{limits.kv_type}/{prompt}")
            assert got.max_diff <= allowed, (prompt, got)
            assert got.largest_margin_where_wrong < 2 * allowed, (prompt, got)
            key = f"transformers/{prompt}"
            if limits.kv_type == "f32" and f"{key}/top_ids" in reference:
                got = compare(logits, reference, key)
                assert got.max_diff <= FLOAT, (prompt, got)
    executor.close()


@pytest.mark.parametrize("name", OWN)
def test_one_die(golden, dies, name):
    dies(1)
    check(golden, name, 1, FLOAT_LIMITS)


@pytest.mark.parametrize("name", SPLIT)
def test_two_dies(golden, dies, name):
    """Split by layers over a card."""
    dies(2)
    check(golden, name, 2, FLOAT_LIMITS)


@pytest.mark.parametrize("num_dies", [1, 2])
@pytest.mark.parametrize("name", SPLIT)
def test_half_keys_and_values(golden, dies, name, num_dies):
    dies(num_dies)
    check(golden, name, num_dies, LIMITS, prompts=PROMPTS[:2])


@pytest.mark.parametrize("kv_type", ["f32", "f16"])
@pytest.mark.parametrize("name", FULL)
def test_full_set(shared_golden, emulated, name, kv_type):
    """Every other model and format, on the shortest prompt."""
    check(shared_golden, name, 1, replace(LIMITS, kv_type=kv_type), prompts=PROMPTS[:1])
