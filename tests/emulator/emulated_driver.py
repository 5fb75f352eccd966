"""The emulated driver's library: built with g++ once per machine, set up through its control functions.

Owns the build and the ctypes view of `driver/control.h`; knows no pycuda. The library is loaded before
pycuda asks the linker for libcuda.so.1 (`accel.cuda.driver.use_library`), or found by LD_LIBRARY_PATH.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path("~/.cache/pantheon/emulator").expanduser()
MAX_DIES = 64
K80_DIE_BYTES = 11441 << 20
ALLOCATION, LAUNCH, COPY = range(3)  # kinds, as in control.h

_FLAGS = (
    "-std=c++17",
    "-O2",
    "-g1",
    "-Wall",
    "-Wextra",
    "-fPIC",
    "-fvisibility=hidden",
    "-U_FORTIFY_SOURCE",
)


class BuildFailed(Exception):
    """The library could not be made; the message says why."""


class _Settings(ctypes.Structure):
    _fields_ = [
        ("num_dies", ctypes.c_uint32),
        ("is_lazy", ctypes.c_uint32),
        ("is_reversed", ctypes.c_uint32),
        ("poisons", ctypes.c_uint32),
        ("has_peers", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint64),
        ("context_bytes", ctypes.c_uint64),
        ("cards", ctypes.c_uint8 * MAX_DIES),
    ]


class EmulatedDriver:
    """The control functions of a loaded library."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        for name in (
            *("count", "used_bytes", "num_contexts", "num_written_past_end"),
            *("is_hung", "num_stuck_calls"),
        ):
            getattr(self._library, f"emulator_{name}").restype = ctypes.c_uint64

    def reset(
        self,
        num_dies: int = 2,
        *,
        cards: Sequence[int] | None = None,
        memory_bytes: int = K80_DIE_BYTES,
        context_bytes: int = 0,
        lazy: bool = False,
        reversed_threads: bool = False,
        poison: bool = False,
        peers: bool = True,
    ) -> None:
        """Start a new machine; what was on the old one is gone, its handles are dead.

        cards: the card of each die, by default two neighbours share one; memory_bytes: of a die;
        context_bytes: what each context takes of it; lazy: nothing runs before something waits for it;
        poison: memory starts as all ones (NaN); peers: dies of a card reach each other's memory.
        """
        settings = _Settings(
            num_dies, lazy, reversed_threads, poison, peers, memory_bytes, context_bytes
        )
        for die, card in enumerate(cards or [die // 2 for die in range(num_dies)]):
            settings.cards[die] = card
        self._library.emulator_reset(ctypes.byref(settings))

    def fail(self, kind: int, nth: int, times: int = 1) -> None:
        """Let the nth operation (from 1) of this kind from now fail, and the next times - 1; 0: none.

        A failing ALLOCATION (of a die's or page-locked memory) is out of memory; a failing LAUNCH or
        COPY spoils its context. pycuda asks for a die's memory twice before it gives up.
        """
        self._library.emulator_fail(kind, ctypes.c_uint64(nth), ctypes.c_uint64(times))

    def count(self, kind: int) -> int:
        """Operations of this kind since the last reset."""
        return int(self._library.emulator_count(kind))

    def used_bytes(self, die: int) -> int:
        return int(self._library.emulator_used_bytes(die))

    def set_external_bytes(self, die: int, num_bytes: int) -> None:
        """Let another process use so much of the die's memory."""
        self._library.emulator_set_external_bytes(die, ctypes.c_uint64(num_bytes))

    def break_die(self, die: int) -> None:
        """Let the die go bad: its contexts fail from now on, and new ones cannot be made."""
        self._library.emulator_break(die)

    def hang_die(self, die: int) -> None:
        """Let nothing that the die is given end from now on, nor what it still has to do."""
        self._library.emulator_hang(die)

    def hang_at_launch(self, nth: int) -> None:
        """Let the nth launch (from 1) from now never end: its die hangs as with `hang_die`. 0: none."""
        self._library.emulator_hang_at_launch(ctypes.c_uint64(nth))

    def is_hung(self, die: int) -> bool:
        return bool(self._library.emulator_is_hung(die))

    def num_stuck_calls(self) -> int:
        """Calls since the last reset that a real driver would not have returned from, as a die hangs.

        Here they fail instead, and are named on stderr.
        """
        return int(self._library.emulator_num_stuck_calls())

    def num_contexts(self) -> int:
        """Those that can be destroyed: none of a die that hangs, or that waits for one."""
        return int(self._library.emulator_num_contexts())

    def num_written_past_end(self) -> int:
        """Allocations, since the last reset, whose bytes just past the end have been written."""
        return int(self._library.emulator_num_written_past_end())


def library(cache: Path | None = None) -> Path:
    """The built libcuda.so.1. Takes some seconds where it is not in the cache. Raises: BuildFailed."""
    sources = sorted((HERE / "driver").glob("*.cpp"))
    headers = (*(HERE / "driver").glob("*.h"), HERE / "kernel" / "launch_record.h")
    digest = hashlib.sha256("\0".join(_FLAGS).encode())
    for path in (*sources, *sorted(headers)):
        digest.update(path.read_bytes())
    target = (cache or CACHE) / digest.hexdigest()[:16] / "libcuda.so.1"
    if not target.is_file():
        _build(sources, target)
    return target


def _build(sources: Sequence[Path], target: Path) -> None:
    if shutil.which("g++") is None:
        raise BuildFailed("g++ is not installed")
    include = _cuda_headers()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:

        def compile_one(source: Path) -> str:
            unit = f"{folder}/{source.stem}.o"
            _run("g++", *_FLAGS, f"-isystem{include}", "-c", str(source), "-o", unit)
            return unit

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            units = list(pool.map(compile_one, sources))
        made = Path(folder) / target.name
        _run(
            "g++",
            "-shared",
            "-Wl,-soname,libcuda.so.1",
            *units,
            "-o",
            str(made),
            "-ldl",
            "-lpthread",
        )
        made.replace(target)  # whole or not at all: two processes may build at once
    # What a linker looks for when pycuda is built against it.
    link = target.parent / "libcuda.so"
    if not link.is_symlink():
        link.symlink_to(target.name)


def _cuda_headers() -> Path:
    return cuda_include("cuda_runtime", "cuda.h")


def cuda_include(part: str, header: str) -> Path:
    """The folder of a header from NVIDIA's wheel `nvidia-<part>-cu11`. Raises: BuildFailed."""
    try:
        spec = importlib.util.find_spec(f"nvidia.{part}")
    except ModuleNotFoundError:
        spec = None
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / "include" / header).is_file():
            return Path(folder) / "include"
    raise BuildFailed(f"{header} is not installed (wheel nvidia-{part.replace('_', '-')}-cu11)")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(done.stderr)


if __name__ == "__main__":
    print(library(Path(sys.argv[1]) if len(sys.argv) > 1 else None).parent)
