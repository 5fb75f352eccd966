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
# The log tells what each entry needs.
FLAGS = ("--std=c++14", "--fmad=false", "--disable-warnings", "-Xptxas=-v")
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

    arch: "sm_NN" of the die, or HOST_ARCH for an emulated one; source: complete, without includes of ours.
    Raises: NoCompiler, KernelRefused, ArchUnsupported, EmulationUnavailable.
    """
    names = _options(defines)
    if arch != HOST_ARCH:
        return _compiled_for_die(source, target_of(arch), names).read_bytes()
    path = _path_of(emulation.compiler_id(), arch, names, source)
    if not path.is_file():
        _store(path, emulation.compile_for_host(source, names))
    return path.read_bytes()


def resources_of(source: str, arch: str, defines: Mapping[str, str]) -> dict[str, nvrtc.Resources]:
    """What each entry of the image for "sm_NN" needs. Raises: NoCompiler, KernelRefused."""
    image = _compiled_for_die(source, arch, _options(defines))
    return nvrtc.resources(_log_of(image).read_text())


def _compiled_for_die(source: str, target: str, names: tuple[str, ...]) -> Path:
    path = _path_of(f"nvrtc {nvrtc.version()}", target, names, source)
    if not path.is_file():
        compiled = nvrtc.compile_source(source, target, (*FLAGS, *names))
        _store(_log_of(path), compiled.log.encode())
        _store(path, compiled.image)
    return path


def _options(defines: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"-D{name}={value}" for name, value in sorted(defines.items()))


def _path_of(compiler: str, target: str, names: tuple[str, ...], source: str) -> Path:
    key = "\0".join((compiler, target, *FLAGS, *names, source))
    return _cache_dir / "cuda" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.{target}"


def _log_of(image: Path) -> Path:
    return image.with_suffix(image.suffix + ".log")


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
