"""Compiling some of the kernels in a second process, into the cache on disk that both share.

numba compiles one function at a time in a process, whatever threads that has. Owns who compiles what and
the other process's life; knows no kernel by more than its name. What is not in the cache in the end is
compiled by whoever asks for it.

    python -m accel.cpu.compiling_beside CACHE_FOLDER ISA KERNEL...
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from accel.host import num_cores
from kernels.cpu import kernel_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

logger = logging.getLogger(__name__)

_ROOT = Path(__file__).parents[2]
# What compiling takes, in seconds on an AVX2 host, by how a name begins: attention comes in many forms.
_SECONDS = {"attention": 15.0, "matmul": 6.0, "prepare": 3.0}
_OTHERS_S = 1.0
_WORTH_S = 5.0  # starting a process that imports numba takes two


def halves(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """(here, beside): two lists that take about as long; nothing beside where that is not worth it."""
    here: list[str] = []
    beside: list[str] = []
    for name in sorted(names, key=_seconds, reverse=True):
        (beside if _total(beside) < _total(here) else here).append(name)
    return (here, beside) if _total(beside) >= _WORTH_S else (list(names), [])


@contextlib.contextmanager
def compiling_beside(names: Sequence[str]) -> Iterator[None]:
    """By the end of the block these kernels are in the cache, unless the process that does it failed."""
    if not names:
        yield
        return
    choice = kernel_cache.configure()
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(choice.folder.parent), choice.isa, *names],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for this process, which ends the other one
    )
    try:
        yield
        if process.wait():
            logger.warning(
                "The process that compiles kernels beside this one ended with status %d;"
                " its part is compiled here.",
                process.returncode,
            )
    finally:
        process.kill()
        process.wait()


def has_second_core() -> bool:
    return num_cores() > 1


def _total(names: Sequence[str]) -> float:
    return sum(map(_seconds, names))


def _seconds(name: str) -> float:
    return _SECONDS.get(name.partition("_")[0], _OTHERS_S)


def main(folder: str, isa: str, *names: str) -> None:
    kernel_cache.configure(Path(folder), isa)
    from accel.cpu.compiling import compile_kernel  # imports numba, for what was just configured

    for name in names:
        compile_kernel(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
