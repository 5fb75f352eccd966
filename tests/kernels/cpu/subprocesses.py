"""Python code in a process of its own: what a process chooses once cannot be tested in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run_python(code, **environ):
    """What the code prints. Environment variables are added to this process's own."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()
