"""An operator's mistake in the environment is answered with one sentence, however the site is started."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(command: list[str], data_dir: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command's end, on a data folder of its own; a server that starts would run on."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "pantheon_site.settings",
            "PANTHEON_DATA_DIR": str(data_dir),
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        ["manage.py", "serve"],
        ["-m", "daphne", "-p", "0", "pantheon_site.asgi:application"],
    ],
)
def test_a_malformed_setting_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    done = run(command, tmp_path, PANTHEON_CPU_THREADS="many")
    assert done.returncode == 1
    said = "PANTHEON_CPU_THREADS is 'many'; it must be a whole number between 0 and 256.\n"
    assert done.stdout + done.stderr == said


def test_dies_that_cannot_be_emulated_are_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "daphne", "-p", "0", "pantheon_site.asgi:application"],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "pantheon_site.settings",
            "PANTHEON_DATA_DIR": str(tmp_path),
            "PANTHEON_EMULATED_DIES": "1",
            "HOME": str(tmp_path),  # no driver that was built before
            "PATH": "",  # and no compiler to build one
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Dies cannot be emulated: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["manage.py", "serve", "--port", "1"],
        ["manage.py", "apikey", "create", "laptop"],
        ["manage.py", "dies"],
        ["-m", "daphne", "-p", "0", "pantheon_site.asgi:application"],
    ],
)
def test_a_database_without_tables_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    done = run(command, tmp_path, PANTHEON_BACKEND="cpu")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert re.fullmatch(
        r"(CommandError: )?The database is not up to date; run: \S+ \S*manage.py migrate\n", said
    ), said
