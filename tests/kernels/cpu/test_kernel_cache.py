"""The folder of compiled kernels and the instruction set are chosen once, before kernels exist."""

from __future__ import annotations

import pytest

from kernels.cpu import kernel_cache
from tests.kernels.cpu.subprocesses import run_python


def test_digest_follows_every_source(tmp_path):
    """An edit in any file, a new file and a renamed one each give another folder."""
    seen = set()
    for change in ("", "x = 1", "x = 2"):
        (tmp_path / "a.py").write_text(change)
        seen.add(kernel_cache.source_digest(tmp_path))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "b.py").write_text("")
    seen.add(kernel_cache.source_digest(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    seen.add(kernel_cache.source_digest(tmp_path))
    assert len(seen) == 5


def test_configured_before_kernels(tmp_path):
    """Kernels go to the folder that was asked for, below a name with the instruction set."""
    code = f"""
from pathlib import Path
from kernels.cpu import kernel_cache
choice = kernel_cache.configure(Path({str(tmp_path)!r}), "generic")
from kernels.cpu.simd import dots
from numba import config
assert config.CACHE_DIR == str(choice.folder)
print(dots.ISA, choice.folder.parent, choice.folder.name.endswith("-generic"))
"""
    assert run_python(code) == f"generic {tmp_path} True"


def test_configured_twice(tmp_path):
    """The same choice again, or no wish at all, is fine; another folder or instruction set is refused."""
    current = kernel_cache.configure()
    assert kernel_cache.configure(current.folder.parent, current.isa) == current
    other = "generic" if current.isa != "generic" else "avx2"
    for folder, isa in ((tmp_path, None), (None, other)):
        with pytest.raises(kernel_cache.AlreadyConfigured, match="start another process"):
            kernel_cache.configure(folder, isa)
    with pytest.raises(kernel_cache.UnknownIsa, match="'mmx'"):
        kernel_cache.configure(isa="mmx")
