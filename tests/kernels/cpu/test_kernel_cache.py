"""The folder of compiled kernels, and the instruction sets: chosen once, with the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.cpu import kernel_cache

ROOT = Path(__file__).parents[3]


def run_python(code, **environ):
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


# Integers in the range of every form's limits, and a float epilogue that is exact: d = 1, whole numbers.
PRODUCTS = """
import hashlib, sys
import numpy as np
from kernels.cpu import kernel_cache
kernel_cache.configure(isa=sys.argv[1] if len(sys.argv) > 1 else None)
from kernels.cpu.pack import pack_weight
from tests.kernels.cpu.calls import Heap, Inline, multiplied, quantised_rows, random_tensor, weight_of

digest = hashlib.sha256()
x = np.random.default_rng(0).integers(-127, 128, (11, 64)).astype(np.float32)
x[:, ::32] = 127
x[3] = 127
x[4] = -127
rows, _ = quantised_rows(x)
for quant in ("Q8_0", "Q5_0"):
    tensor = random_tensor(quant, 32, 64)
    blocks = tensor.data.reshape(64, -1)
    blocks[:, :2] = np.float16(1).reshape(1).view(np.uint8)
    blocks[:2, 2:] = 0x80
    blocks[2:4, 2:] = 0x7F
    blocks[4:6, 2:] = 0xFF
    (part,) = pack_weight(weight_of(tensor), Heap(), Inline())
    digest.update(multiplied(part, rows).tobytes())
print(digest.hexdigest())
"""


def products(isa=None, **environ):
    return run_python(
        PRODUCTS.replace("sys.argv[1] if len(sys.argv) > 1 else None", repr(isa)), **environ
    )


@pytest.fixture(scope="module")
def host_products():
    return products()


def runs_here(isa):
    return kernel_cache.ISAS.index(isa) >= kernel_cache.ISAS.index(kernel_cache.host_isa())


@pytest.mark.parametrize("isa", kernel_cache.ISAS)
def test_same_products(isa, host_products):
    """Every form of the dot product gives the same integers, those at its limits included."""
    if not runs_here(isa):
        pytest.skip(f"this host has no {isa}")
    assert products(isa) == host_products


@pytest.mark.parametrize(
    ("cpu", "features", "isa"),
    [
        ("haswell", "+avx2,+fma,+f16c,+ssse3,+avx", "avx2"),
        ("sandybridge", "+ssse3,+avx", "ssse3"),
        ("x86-64", "", "generic"),
    ],
)
def test_older_hosts(cpu, features, isa, host_products):
    """Compiled for an older CPU the kernels run and give the same products."""
    if not runs_here(isa):
        pytest.skip(f"this host has no {isa}")
    environ = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}
    chosen = "from kernels.cpu import kernel_cache; print(kernel_cache.host_isa())"
    assert run_python(chosen, **environ) == isa
    assert products(**environ) == host_products
