"""A live server over a scripted model, for every test of the API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inference.runtime_access import set_runtime
from inference.text.text_model import TextModel
from registry.key_policy import KeyPolicy
from registry.services import api_keys
from tests.fakes.live_server import LiveServer, live_server
from tests.fakes.runtime import FakeServing, tiny_text_model
from tests.inference.api.wire import Wire


@pytest.fixture(scope="session")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> TextModel:
    return tiny_text_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def serving(text_model: TextModel) -> Iterator[FakeServing]:
    """One replica called "tiny", set as the process's runtime."""
    made = FakeServing(text_model)
    made.add("tiny")
    set_runtime(made.runtime)
    yield made
    set_runtime(None)
    made.close()


@pytest.fixture(autouse=True)
def _fresh_keys() -> None:
    """The memory of all keys outlives a test's database."""
    api_keys._policy.clear()


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No API key exists; nothing asks the database."""
    nobody = KeyPolicy(is_open=True, by_prefix={})
    monkeypatch.setattr("registry.services.key_policy_in_memory", lambda: nobody)


@pytest.fixture
def server() -> LiveServer:
    return live_server()


@pytest.fixture
def wire(serving: FakeServing, no_keys: None, server: LiveServer) -> Wire:
    return Wire(server)
