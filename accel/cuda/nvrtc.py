"""Kernel source to machine code: NVIDIA's run-time compiler, by ctypes.

Owns the library's handle and the reading of its log; knows no kernel and no die. Needs no driver and
no GPU, so that every kernel can be compiled, and its registers counted, anywhere.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accel.errors import AccelError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The wheel's library first, then what a toolkit put on the linker's path. Both are CUDA 11.2 to 11.8.
_LIBRARY = "libnvrtc.so.11.2"
_BUILTINS = "libnvrtc-builtins.so.11.8"
_TOOLKIT = Path("/usr/local/cuda")
_FUNCTION = re.compile(
    r"Compiling entry function '(?P<entry>\w+)'"
    r".*?(?P<stack>\d+) bytes stack frame"
    r", (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?:, (?P<shared>\d+) bytes smem)?",
    re.DOTALL,
)


class NoCompiler(AccelError):
    """The run-time compiler is not installed."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"Kernels cannot be compiled: {why}. Install requirements-cuda.txt, or a CUDA 11 toolkit."
        )


class KernelRefused(AccelError):
    """The compiler did not take a kernel's source. `log` is what it said."""

    def __init__(self, arch: str, log: str) -> None:
        self.arch, self.log = arch, log
        super().__init__(f"A kernel does not compile for {arch}: {log.strip()}")


@dataclass(frozen=True)
class Compiled:
    """`image` is a cubin for sm_NN, or PTX for compute_NN."""

    image: bytes
    log: str


@dataclass(frozen=True)
class Resources:
    """What one entry needs: registers a thread; bytes of stack and spills a thread, shared a thread block."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int


def compile_source(source: str, arch: str, options: tuple[str, ...] = ()) -> Compiled:
    """Compile for "sm_NN" (machine code) or "compute_NN" (PTX). Raises: NoCompiler, KernelRefused."""
    with _kept_locale():
        return _compile(source, arch, options)


@contextmanager
def _kept_locale() -> Iterator[None]:
    """The compiler leaves the calling thread in the C locale, where Python takes text for ASCII."""
    use_locale = ctypes.CDLL(None).uselocale
    use_locale.restype, use_locale.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    kept = use_locale(None)
    try:
        yield
    finally:
        use_locale(kept)


def _compile(source: str, arch: str, options: tuple[str, ...]) -> Compiled:
    library = _library()
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None
        )
    )
    try:
        texts = [
            text.encode() for text in (f"--gpu-architecture={arch}", *_header_options(), *options)
        ]
        failed = library.nvrtcCompileProgram(
            program, len(texts), (ctypes.c_char_p * len(texts))(*texts)
        )
        log = _read(program, "ProgramLog").decode(errors="replace")
        if failed:
            raise KernelRefused(arch, log or _message(failed))
        return Compiled(_read(program, "CUBIN" if arch.startswith("sm_") else "PTX"), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@functools.cache
def supported_archs() -> tuple[int, ...]:
    """The NN of every sm_NN the compiler makes code for, ascending. Raises: NoCompiler."""
    count = ctypes.c_int()
    _check(_library().nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    archs = (ctypes.c_int * count.value)()
    _check(_library().nvrtcGetSupportedArchs(archs))
    return tuple(archs)


def version() -> str:
    """As "11.8". Raises: NoCompiler."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def resources(log: str) -> dict[str, Resources]:
    """By entry name, from the log of a compilation with "-Xptxas=-v"."""
    return {
        found["entry"]: Resources(
            int(found["registers"]),
            int(found["stack"]),
            int(found["stores"]),
            int(found["loads"]),
            int(found["shared"] or 0),
        )
        for found in _FUNCTION.finditer(log)
    }


def _read(program: ctypes.c_void_p, what: str) -> bytes:
    """The program's log, cubin or PTX. Texts lose their closing zero."""
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, buffer))
    return buffer.raw if what == "CUBIN" else buffer.value


def _check(result: int) -> None:
    if result:
        raise NoCompiler(f"the compiler's library failed ({_message(result)})")


def _message(result: int) -> str:
    return str(_library().nvrtcGetErrorString(result).decode())


@functools.cache
def _library() -> ctypes.CDLL:
    folder = wheel_folder("cuda_nvrtc", f"lib/{_LIBRARY}")
    try:
        if folder:
            # The library asks the linker for its builtins by name; a loaded one is found.
            ctypes.CDLL(str(folder / "lib" / _BUILTINS), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(folder / "lib" / _LIBRARY) if folder else _LIBRARY)
    except OSError as error:
        raise NoCompiler(f"{_LIBRARY} cannot be loaded ({error})") from error
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _header_options() -> tuple[str, ...]:
    """Where cuda_fp16.h lies."""
    folder = wheel_folder("cuda_runtime", "include/cuda_fp16.h") or _TOOLKIT
    return (f"--include-path={folder / 'include'}",)


def wheel_folder(part: str, file: str) -> Path | None:
    """The folder of NVIDIA's wheel nvidia-<part>-cu11, where it is installed with this file."""
    try:
        spec = importlib.util.find_spec(f"nvidia.{part}")
    except ModuleNotFoundError:
        return None
    folders = (spec and spec.submodule_search_locations) or ()
    return next((Path(folder) for folder in folders if (Path(folder) / file).exists()), None)
