"""`manage.py warm_kernels` leaves nothing to compile for the start that follows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.fakes.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).parents[2]
LOAD = """
import sys
from pathlib import Path
from accel.cpu.backend import kernel_cache_misses
from inference.loading import EngineSettings, LoadPlan, load_replica
settings = EngineSettings("cpu", Path(sys.argv[1]), 2, context_len=64)
plan = LoadPlan("replica", "tiny", Path(sys.argv[2]), "")
load_replica(plan, settings, lambda phase, share: None, print).close("done")
print(kernel_cache_misses())
"""


@pytest.fixture
def here(tmp_path):
    """Runs a command with kernels and data in a folder of its own; what it prints."""
    mine = {
        "PANTHEON_DATA_DIR": str(tmp_path / "data"),
        "PANTHEON_KERNEL_CACHE_DIR": str(tmp_path / "kernels"),
    }

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | mine,
            capture_output=True,
            text=True,
            timeout=170,
        )
        assert not done.returncode, done.stderr
        return done.stdout.strip()

    return run


@pytest.mark.timeout(360)
def test_a_warm_start_compiles_nothing(here, tmp_path):
    """A model of two weight formats, first served by another process; warming again finds all there."""
    path = write_tiny_gguf(tmp_path / "m.gguf", "qwen3", "Q8_0")
    said = here("manage.py", "warm_kernels", "--model", str(path))
    assert str(tmp_path / "kernels") in said
    num_kernels, num_compiled = (
        int(re.search(rf"(\d+) {what}", said)[1]) for what in ("kernels ready", "compiled in")
    )
    assert num_compiled >= num_kernels, "also those that a second process compiled"
    assert here("-c", LOAD, str(tmp_path / "kernels"), str(path)) == "0"
    assert " 0 compiled" in here("manage.py", "warm_kernels", "--model", str(path))


def test_a_file_that_cannot_be_read_is_named():
    with pytest.raises(CommandError, match=r"^nowhere\.gguf: .*cannot be read"):
        call_command("warm_kernels", model=[Path("nowhere.gguf")])
