"""The CUDA backend computes what llama.cpp computes, whatever the weights are stored as.

Activations stay float32 on dies, so one tolerance holds for all formats: that of half-float keys and
values in tests/golden/README.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.accel.cpu.models import limits, run_prompt
from tests.accel.cuda.models import compile_file
from tests.conftest import GOLDEN, SHARED
from tests.fakes.prompt_runs import PROMPTS, compare

HALF_KV = 5e-2
OTHER_ARCHITECTURES = ("granite", "llama-moe", "phi3", "qwen35", "qwen3moe")
LIMITS = limits(300, num_slots=1)


def models(folder):
    names = sorted(path.stem for path in (folder / "tiny").glob("*.gguf"))
    return [name for name in names if not name.startswith(OTHER_ARCHITECTURES)]


OWN = models(GOLDEN)
FULL = [name for name in models(SHARED / "golden") if name not in OWN]
# One architecture each, in two mixes: what several dies must not change.
SPLIT = ["gemma3-scaled.f16", "llama-tied-spm.Q4_K", "qwen2.f16", "qwen3.Q8_0"]


def check(folder, name, num_dies, prompts=PROMPTS):
    # An f32 file holds the weights of the f16 one, and shares its reference.
    path = folder / "tiny" / f"{name}.npz"
    path = path if path.exists() else path.with_name(f"{name.replace('f32', 'f16')}.npz")
    executor = compile_file(folder / "tiny" / f"{name}.gguf", LIMITS, num_dies)
    with np.load(path) as reference:
        for prompt in prompts:
            logits = run_prompt(executor, reference[f"ids/{prompt}"], LIMITS, 64)
            got = compare(logits, reference, f"exact/kvf16/{prompt}")
            assert got.max_diff <= HALF_KV, (prompt, got)
            assert got.largest_margin_where_wrong <= 2 * HALF_KV, (prompt, got)
    executor.close()


@pytest.mark.parametrize("name", OWN)
def test_one_die(golden, dies, name):
    dies(1)
    check(golden, name, num_dies=1)


@pytest.mark.parametrize("name", SPLIT)
def test_two_dies(golden, dies, name):
    """Split by layers over a card."""
    dies(2)
    check(golden, name, num_dies=2)


@pytest.mark.parametrize("name", FULL)
def test_full_set(shared_golden, emulated, name):
    """Every other model and format, on the shortest prompt."""
    check(shared_golden, name, num_dies=1, prompts=PROMPTS[:1])
