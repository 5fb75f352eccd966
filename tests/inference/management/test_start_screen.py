"""What the terminal says during a start: nothing too early, nothing hostile, where to go at the end."""

from __future__ import annotations

import json
import logging
import shlex
import sys

import pytest
from rich.console import Console

from inference.management.load_display import Bars
from inference.management.start_screen import StartScreen
from inference.supervisor import LoadProgress

URL = "http://127.0.0.1:8000"


def ready(name: str, context_len: int = 8192) -> LoadProgress:
    return LoadProgress(name, "ready", 1.0, "ready", context_len=context_len)


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
    body = json.loads(shlex.split(line)[-1])
    # A small model that samples without a bound may go on for ever.
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("alpha", 0, 300)
    assert "Authorization" not in line


def test_the_example_is_the_first_model_that_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, None)
    screen.expect(["alpha", "beta", "gamma", "beta"])
    screen.listening()
    screen.show(LoadProgress("alpha", "failed", 0.0, "failed", "It broke."))
    screen.show(ready("gamma"))
    screen.show(ready("beta"))
    assert '"model":"beta"' in capsys.readouterr().err


def test_the_example_fits_into_a_short_context(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, None)
    screen.expect(["alpha"])
    screen.listening()
    screen.show(ready("alpha", context_len=256))
    assert '"max_tokens":128' in capsys.readouterr().err


def test_where_keys_are_in_force_the_line_sends_one(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, None, needs_key=True)
    screen.expect(["alpha"])
    screen.listening()
    screen.show(ready("alpha"))
    said = capsys.readouterr().err
    line = next(line for line in said.splitlines() if line.startswith("curl"))
    assert "Authorization: Bearer $KEY" in shlex.split(line)
    # Between double quotes, or the shell would not put the key in.
    assert '"Authorization: Bearer $KEY"' in line
    assert "manage.py apikey create NAME" in said


def test_a_stop_ends_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, None)
    screen.expect(["alpha"])
    screen.listening()
    screen.show(LoadProgress("alpha", "compiling kernels", 0.5, "loading"))
    screen.stopping()
    screen.show(ready("alpha"))
    screen.stopping()
    said = capsys.readouterr().err
    assert said.count("stopping") == 1
    assert "ready" not in said and "curl" not in said and "Ctrl-C" not in said


def test_a_stop_before_the_end_of_a_start_tells_the_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = StartScreen(URL, "secret")
    screen.expect(["alpha"])
    screen.stopping()
    assert "log in as admin with secret" in capsys.readouterr().err


def test_a_password_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = StartScreen(URL, "secret")
    screen.tell_login()
    screen.expect([])
    screen.listening()
    assert capsys.readouterr().err.count("secret") == 1


def test_without_a_terminal_every_phase_is_one_plain_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = StartScreen(URL, None)
    for share in (0.0, 0.5, 1.0):
        screen.show(LoadProgress("alpha", "packing weights", share, "loading"))
    for share in (0.0, 1.0):
        screen.show(LoadProgress("alpha", "compiling kernels", share, "loading"))
    screen.show(ready("alpha"))
    assert capsys.readouterr().err.splitlines() == [
        "alpha: packing weights…",
        "alpha: compiling kernels (once per machine and version)…",
        "alpha: ready",
    ]


def test_on_a_terminal_the_clock_runs_on_and_log_records_stay_above() -> None:
    """A phase that fills the bar is not the end of the load."""
    handler = logging.StreamHandler(stderr := sys.stderr)
    logging.getLogger().addHandler(handler)
    bars = Bars(Console(stderr=True, force_terminal=True))
    try:
        bars.show(LoadProgress("alpha", "packing weights", 1.0, "loading"))
        (task,) = bars._bars.tasks
        assert not task.finished
        assert handler.stream is sys.stderr is not stderr
        bars.show(ready("alpha"))
        assert task.finished
    finally:
        bars.close()
        logging.getLogger().removeHandler(handler)
    assert handler.stream is stderr


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
