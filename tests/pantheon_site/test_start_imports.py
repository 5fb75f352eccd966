"""A server that listens has imported nothing that only some of its work needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pantheon_site.lean_start import OBJECTS_BETWEEN_COLLECTIONS

ROOT = Path(__file__).parents[2]
CODE = """
import gc, sys
import inference.http_server.server, inference.management.commands.serve, inference.startup
import pantheon_site.urls
print(gc.get_threshold()[0], *sorted(sys.modules))
"""


@pytest.fixture(scope="module")
def at_the_start(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Objects between two collections, then the modules that are there."""
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "-c", CODE],
        cwd=ROOT,
        env=os.environ
        | {
            "DJANGO_SETTINGS_MODULE": "pantheon_site.settings",
            "PANTHEON_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "module",
    [
        "httpx",  # for pulls
        "numba",  # for models on the CPU, once one is loaded
        "accel.cuda.backend",  # for models on dies
        "pycuda",
        "OpenSSL.SSL",  # a proxy speaks TLS
        "pycparser",  # for WebSockets
    ],
)
def test_what_few_starts_need_comes_later(module: str, at_the_start: list[str]) -> None:
    assert "inference.supervisor" in at_the_start
    assert module not in at_the_start


def test_python_looks_for_cycles_seldom(at_the_start: list[str]) -> None:
    assert at_the_start[0] == str(OBJECTS_BETWEEN_COLLECTIONS)
