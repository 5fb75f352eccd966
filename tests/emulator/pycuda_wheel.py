"""pycuda without a CUDA toolkit: its wheel, built from source once per machine and kept.

Owns the build's configuration. It needs NVIDIA's header wheels and a libcuda to link against, and takes
the emulated one for it: the wheel asks for libcuda.so.1 by name, so it runs on a real driver as well.
`python -m tests.emulator.pycuda_wheel` installs it into the environment of the interpreter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.emulator.emulated_driver import BuildFailed, cuda_include, library

SOURCE = Path(__file__).parents[2] / "requirements-pycuda.txt"
CACHE = Path("~/.cache/pantheon/wheels").expanduser()


def wheel(cache: Path = CACHE) -> Path:
    """The built wheel for this interpreter. Takes two minutes where it is not in the cache."""
    found = re.search(r"^pycuda==(\S+)", SOURCE.read_text(), re.MULTILINE)
    assert found, f"{SOURCE} names no pycuda"
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    name = f"pycuda-{found[1]}-{python}-{python}-linux_*.whl"
    if not list(cache.glob(name)):
        cache.mkdir(parents=True, exist_ok=True)
        _build(cache)
    return next(cache.glob(name))


def _build(cache: Path) -> None:
    headers = [
        str(cuda_include("cuda_runtime", "cuda.h")),
        str(cuda_include("cuda_profiler_api", "cudaProfiler.h")),
    ]
    with tempfile.TemporaryDirectory() as home:
        # The only place from which its set-up reads a configuration without a terminal.
        (Path(home) / ".aksetup-defaults.py").write_text(
            f"CUDA_ENABLE_CURAND = False\nCUDA_ROOT = None\nCUDA_INC_DIR = {headers!r}\n"
            f"CUDADRV_LIB_DIR = [{str(library().parent)!r}]\n"
        )
        _pip(
            *("wheel", "--no-deps", "--require-hashes", "-r", str(SOURCE), "-w", str(cache)),
            environ={**_folders_of_pip(), **os.environ, "HOME": home},
        )


def _folders_of_pip() -> dict[str, str]:
    """Where pip keeps its configuration and cache: not in the home that the build gets."""
    home = Path.home()
    return {"XDG_CONFIG_HOME": str(home / ".config"), "XDG_CACHE_HOME": str(home / ".cache")}


def _pip(*arguments: str, environ: dict[str, str] | None = None) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run((sys.executable, "-m", "pip", *arguments, *quiet), env=environ, check=True)


if __name__ == "__main__":
    try:
        built = wheel()
    except BuildFailed as error:
        sys.exit(f"pycuda cannot be built: {error}")
    _pip("install", "--no-deps", "--force-reinstall", str(built))
