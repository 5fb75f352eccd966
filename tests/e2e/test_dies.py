"""Models on emulated dies answer over HTTP what llama.cpp answers, on one die and split over a card.

Keys and values are float32, so that logprobs are held to the tolerance of float32 engines. One model of each
architecture, whole and quantised ones; the rest of the models is in test_dies_all_models.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import NO_EMULATOR, can_emulate
from tests.e2e.golden_answers import NUM_LOGPROBS, Model, check, expected
from tests.e2e.server_process import ServerProcess, server_process

MODELS = tuple(map(Model, ("gemma3-scaled.f16", "llama-tied-spm.Q4_K", "qwen2.f16", "qwen3.Q8_0")))
PLACES = {"one": (0,), "split": (0, 1)}
PROMPTS = ("short", "english")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Every model twice: on one die, and on both of a card."""
    if not can_emulate():
        pytest.skip(NO_EMULATOR)
    with server_process(tmp_path_factory.mktemp("data"), PANTHEON_KV_TYPE="f32") as running:
        running.extra_env["PANTHEON_EMULATED_DIES"] = "2"
        arguments: list[str] = []
        for model in MODELS:
            for place, dies in PLACES.items():
                arguments += ["--model", model.path, "--name", f"{model.name}-{place}"]
                arguments += ["--dies", ",".join(map(str, dies))]
        running.serve(*arguments)
        running.wait_until_serving(
            *(f"{model.name}-{place}" for model in MODELS for place in PLACES)
        )
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_greedy_completions(server: ServerProcess, model: Model, place: str) -> None:
    num_compared = 0
    for prompt in PROMPTS:
        wanted = expected(model, prompt)
        if not wanted.ids:
            continue
        answer = server.client().completions.create(
            model=f"{model.name}-{place}",
            prompt=wanted.prompt,
            temperature=0,
            max_tokens=len(wanted.ids),
            logprobs=NUM_LOGPROBS,
        )
        check(model, wanted, answer)
        num_compared += len(wanted.ids)
    assert num_compared > 10
