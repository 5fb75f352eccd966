"""Real models, where their files lie in PANTHEON_TEST_MODELS_DIR, meet llama.cpp's float32 logits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from accel.reference.backend import ReferenceBackend
from inference.model.architectures import record
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from tests.fakes.prompt_runs import greedy, one_slot_limits, prefill

MODELS = Path(
    os.environ.get("PANTHEON_TEST_MODELS_DIR", Path(__file__).parents[3] / "var" / "models")
)
NUM_GREEDY = 12
PROMPTS = ("en_short", "en_para", "chat")
CASES = [
    ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct-q4_1.json", 5e-3),
    ("gemma-3-270m-q4_k_m.gguf", "gemma-3-270m-q4_k_m.json", 3e-2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file_name", "reference_name", "tolerance"), CASES)
def test_float(shared_golden, file_name, reference_name, tolerance):
    """The top 20 after each prompt within the tolerance; greedy tokens equal while margins allow."""
    if not (MODELS / file_name).is_file():
        pytest.skip(f"model file is absent: {MODELS / file_name}")
    reference = json.loads((shared_golden / "real" / reference_name).read_text(encoding="utf-8"))
    limits = one_slot_limits(160)
    with read_gguf(MODELS / file_name) as file:
        program = fuse(record(file)[1])
        executor = ReferenceBackend().compile(program, limits, lambda phase, share: None)
    for prompt in PROMPTS:
        tokens = reference["prompts"][prompt]["ids"]
        wanted = reference["prompts"][prompt]["exact_kv_f32"]
        logits = prefill(executor, tokens, limits)[-1]
        diff = np.abs(logits[wanted["top20_ids"]] - np.array(wanted["top20_logits"])).max()
        assert diff <= tolerance, prompt
        got = greedy(executor, tokens, NUM_GREEDY, limits)
        pairs = zip(got, wanted["greedy"]["ids"], wanted["greedy"]["margin"], strict=False)
        margin = next((margin for mine, theirs, margin in pairs if mine != theirs), 0.0)
        assert margin < 2 * tolerance, prompt
