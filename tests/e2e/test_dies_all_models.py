"""Every tiny model over HTTP on emulated dies, some with weights rounded at load, on one die and on two."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import GOLDEN, NO_EMULATOR, can_emulate
from tests.e2e.golden_answers import NUM_LOGPROBS, Model, check, expected
from tests.e2e.server_process import ServerProcess, server_process
from tests.fakes.prompt_runs import PROMPTS

# Of each architecture two mixes and more; what is stored in one alone comes a second time, rounded at load.
MODELS = (
    *map(Model, sorted(path.stem for path in (GOLDEN / "tiny").glob("*.gguf"))),
    Model("gemma3-scaled.f16", quantise=True),
    Model("qwen2.f16", quantise=True),
)
PLACES = {"one": [0], "split": [0, 1]}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    """A server on two dies without a model, and a key to load some."""
    if not can_emulate():
        pytest.skip(NO_EMULATOR)
    environ = {
        "PANTHEON_KV_TYPE": "f32",
        "PANTHEON_CONTEXT_LEN": "384",
        "PANTHEON_EMULATED_DIES": "2",
        "PANTHEON_MODEL_DIRS": str(GOLDEN / "tiny"),
    }
    with server_process(tmp_path_factory.mktemp("data"), **environ) as running:
        key = running.admin_key()
        running.serve()
        running.wait_until_serving(headers=key)
        yield running, key["Authorization"].removeprefix("Bearer ")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_greedy_completions(server: tuple[ServerProcess, str], model: Model, place: str) -> None:
    running, key = server
    name, headers = f"{model.name}-{place}", {"Authorization": f"Bearer {key}"}
    load = {"path": model.path, "name": name, "dies": PLACES[place], "quantize": model.quantise}
    url = f"{running.url}/admin/models"
    loaded = httpx.post(f"{url}/load", json=load, headers=headers, timeout=120)
    assert loaded.json()["state"] == "ready", loaded.text
    client = running.client().with_options(api_key=key)
    num_compared = 0
    for prompt in PROMPTS:
        wanted = expected(model, prompt)
        if not wanted.ids:
            continue
        answer = client.completions.create(
            model=name,
            prompt=wanted.prompt,
            temperature=0,
            max_tokens=len(wanted.ids),
            logprobs=NUM_LOGPROBS,
        )
        check(model, wanted, answer)
        num_compared += len(wanted.ids)
    assert num_compared > 10
    httpx.post(f"{url}/unload", json={"name": name}, headers=headers, timeout=60).raise_for_status()
