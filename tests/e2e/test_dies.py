"""Models on emulated dies answer over HTTP what llama.cpp answers, on one die and split over a card."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from inference.model.gguf import read_gguf
from inference.text.detokenizer import Detokenizer
from inference.text.tokenizer import Tokenizer
from tests.conftest import GOLDEN, NO_EMULATOR, can_emulate
from tests.e2e.server_process import ServerProcess, server_process

# All architectures; whole and quantised files of them.
MODELS = ("gemma3-scaled.f16", "llama-tied-spm.Q4_K", "qwen2.f16", "qwen3.Q4_0", "qwen3.Q8_0")
PLACES = {"one": "0", "split": "0,1"}
PROMPTS = ("short", "english")
CLEAR_MARGIN = 0.1  # twice the tolerance of half-float keys and values (tests/golden/README.md)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Every model twice: on one die, and on both of a card."""
    if not can_emulate():
        pytest.skip(NO_EMULATOR)
    with server_process(tmp_path_factory.mktemp("data")) as running:
        running.extra_env["PANTHEON_EMULATED_DIES"] = "2"
        arguments: list[str] = []
        for model in MODELS:
            for place, dies in PLACES.items():
                path = str(GOLDEN / "tiny" / f"{model}.gguf")
                arguments += ["--model", path, "--name", f"{model}-{place}", "--dies", dies]
        running.serve(*arguments)
        running.wait_until_serving(*(f"{model}-{place}" for model in MODELS for place in PLACES))
        yield running


def clear_ids(reference: np.lib.npyio.NpzFile, prompt: str) -> list[int]:
    """The reference's greedy tokens up to the first that rounding could change."""
    margins = reference[f"exact/kvf16/{prompt}/greedy_margin"]
    unclear = np.flatnonzero(margins < CLEAR_MARGIN)
    end = unclear[0] if len(unclear) else len(margins)
    ids: list[int] = reference[f"exact/kvf16/{prompt}/greedy_ids"][:end].tolist()
    return ids


def text_of(model: str, ids: list[int]) -> str:
    with read_gguf(GOLDEN / "tiny" / f"{model}.gguf") as file:
        tokenizer = Tokenizer.from_metadata(file.metadata)
    detokenizer = Detokenizer(tokenizer)
    return "".join(map(detokenizer.push, ids)) + detokenizer.flush()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("model", MODELS)
def test_greedy_completions(server: ServerProcess, model: str, place: str) -> None:
    num_compared = 0
    with np.load(GOLDEN / "tiny" / f"{model}.npz") as reference:
        for prompt in PROMPTS:
            expected = clear_ids(reference, prompt)
            if not expected:
                continue
            answer = server.client().completions.create(
                model=f"{model}-{place}",
                prompt=reference[f"ids/{prompt}"].tolist(),
                temperature=0,
                max_tokens=len(expected),
            )
            assert answer.choices[0].text == text_of(model, expected), prompt
            num_compared += len(expected)
    assert num_compared > 1
