"""One loader for a kernel's image, whatever a die takes: machine code, PTX, or a host library.

Owns which form an architecture gets, the compiler's flags, and the cache on disk; knows no kernel. The
bytes go to the driver as they are.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from accel.cuda import emulation, nvrtc
from accel.cuda.driver import HOST_ARCH
from accel.errors import AccelError

if TYPE_CHECKING:
    from collections.abc import Mapping

# No contraction: kernels write fmaf where they want one, so a row's bits do not depend on how a kernel
# of another width was compiled.
FLAGS = ("--std=c++14", "--fmad=false", "--disable-warnings")
DEFAULT_CACHE = Path("~/.cache/pantheon/kernels")

_cache_dir = DEFAULT_CACHE.expanduser()


class ArchUnsupported(AccelError):
    """No form of a kernel runs on this architecture."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        super().__init__(
            f"Kernels cannot be compiled for {arch}; a die needs compute capability 3.5 or newer."
        )


def use_cache_dir(folder: Path) -> None:
    """Keep images below this folder. A choice of the process."""
    global _cache_dir
    _cache_dir = folder


def load_image(source: str, arch: str, defines: Mapping[str, str]) -> bytes:
    """The image of a kernel's source, from the cache or compiled now.

    arch: "sm_NN" of the die, or HOST_ARCH for an emulated one; source: complete, without includes.
    Raises: NoCompiler, KernelRefused, ArchUnsupported, EmulationUnavailable.
    """
    names = tuple(f"-D{name}={value}" for name, value in sorted(defines.items()))
    if arch == HOST_ARCH:
        compiler, target = emulation.compiler_id(), arch
    else:
        compiler, target = f"nvrtc {nvrtc.version()}", target_of(arch)
    key = "\0".join((compiler, target, *FLAGS, *names, source))
    path = _cache_dir / "cuda" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.{target}"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    if arch == HOST_ARCH:
        image = emulation.compile_for_host(source, names)
    else:
        image = nvrtc.compile_source(source, target, (*FLAGS, *names)).image
    _store(path, image)
    return image


def target_of(arch: str) -> str:
    """What to compile for a die of `arch`: machine code it runs, else PTX of the newest known.

    Machine code runs on later dies of the same major capability; PTX on whatever is newer.
    Raises: ArchUnsupported, NoCompiler.
    """
    wanted = int(arch.removeprefix("sm_"))
    known = nvrtc.supported_archs()
    same_major = [n for n in known if n <= wanted and n // 10 == wanted // 10]
    if same_major:
        return f"sm_{same_major[-1]}"
    if wanted > known[-1]:
        return f"compute_{known[-1]}"
    raise ArchUnsupported(arch)


def _store(path: Path, image: bytes) -> None:
    """Put a whole file in its place: two processes may compile the same kernel at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(image)
    Path(name).replace(path)
