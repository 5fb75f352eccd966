"""Commands in messages can be pasted as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inference.management.command_line import manage_py


def test_the_interpreter_that_runs_now_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["manage.py", "serve"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    assert manage_py("migrate") == ".venv/bin/python manage.py migrate"


def test_elsewhere_it_is_named_in_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/srv/my box/manage.py", "serve"])
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert manage_py("migrate") == "/usr/bin/python3 '/srv/my box/manage.py' migrate"
