"""What the terminal says during a start: nothing too early, nothing hostile, where to go at the end."""

from __future__ import annotations

import shlex

import pytest

from inference.management.start_screen import StartScreen
from inference.supervisor import LoadProgress

URL = "http://127.0.0.1:8000"


def ready(name: str) -> LoadProgress:
    return LoadProgress(name, "ready", 1.0, "ready")


def test_it_waits_for_the_socket_and_for_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, "secret")
    screen.expect(["alpha", "beta"])
    screen.show(ready("alpha"))
    screen.listening()
    assert "curl" not in capsys.readouterr().err
    screen.show(ready("beta"))
    said = capsys.readouterr().err
    assert f"{URL}/admin/" in said and "secret" in said
    line = next(line for line in said.splitlines() if line.startswith("curl"))
    assert shlex.split(line)[-1].startswith('{"model":"alpha"')


def test_a_failed_model_is_named_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, None)
    screen.listening()
    screen.expect(["alpha"])
    screen.show(LoadProgress("alpha", "failed", 0.0, "failed", "It needs [more] memory."))
    said = capsys.readouterr().err
    assert "alpha could not be loaded: It needs [more] memory." in said
    assert "log in as" not in said
    assert "curl" not in said


def test_with_nothing_to_load_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, None)
    screen.expect([])
    screen.listening()
    assert "No model is loaded" in capsys.readouterr().err
