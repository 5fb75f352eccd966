"""The shape of the tree: import contracts, file sizes, names, opening sentences."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("pantheon_site", "inference", "registry", "accel", "kernels", "benchmarks")
MAX_LINES = 400
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


def sources(*folders: str) -> list[Path]:
    found = [
        p
        for folder in folders
        for p in (ROOT / folder).rglob("*.py")
        if "migrations" not in p.parts
    ]
    assert found
    return found


def test_import_contracts_hold() -> None:
    """Layers, and who may import Django, numba and pycuda (pyproject.toml, tool.importlinter)."""
    lint_imports = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([lint_imports], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_stay_small() -> None:
    too_long = {
        str(p.relative_to(ROOT)): n
        for p in sources(*PACKAGES, "tests")
        if (n := len(p.read_text().splitlines())) > MAX_LINES
    }
    assert not too_long, f"over {MAX_LINES} lines: {too_long}"


def test_names_say_something() -> None:
    assert not [p for p in sources(*PACKAGES, "tests") if EMPTY_NAMES & {*p.parts, p.stem}]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_opens_with_what_it_owns(package: str) -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in sources(package)
        if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert not silent


def test_an_op_has_the_same_stem_in_every_backend() -> None:
    """kernels/reference/<op>.py exists for every op of the table."""
    from kernels.specs.ops import OPS

    reference = {p.stem for p in (ROOT / "kernels/reference").glob("*.py")}
    missing = {kind for kind, spec in OPS.items() if not spec.fused} - reference
    assert not missing
