"""The CPU backend: compiles a fused program into a table of op records for this host.

Owns the order of compiling; the parts know their own business. Importing it imports no numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.errors import UnsupportedProgram
from kernels.cpu import kernel_cache
from kernels.cpu.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from accel.backend import Limits, Progress
    from accel.cpu.executor import CpuExecutor
    from kernels.specs.program import Program


@dataclass(frozen=True)
class AheadOfUse:
    """Kernels that are ready, how many of them were not in the cache, and where it is."""

    num_kernels: int
    num_compiled: int
    choice: kernel_cache.Choice


class CpuBackend:
    """Takes fused programs; KV type f16.

    kernel_cache_dir: where compiled kernels are kept (None: under the home folder). isa: one of
    kernels.cpu.kernel_cache.ISAS (None: the host's best). Both are one choice per process.
    """

    name = "cpu"

    def __init__(self, kernel_cache_dir: Path | None = None, isa: str | None = None) -> None:
        self._kernel_cache_dir, self._isa = kernel_cache_dir, isa

    def compile(self, program: Program, limits: Limits, progress: Progress) -> CpuExecutor:
        """Pack weights, compile kernels, take memory. Raises: UnsupportedProgram, OutOfMemory."""
        self._configure("this program")
        from accel.cpu.assembly import assemble  # imports numba, for what was just configured

        return assemble(program, limits, progress)

    def compile_ahead(self, quants: Iterable[str] | None, progress: Progress) -> AheadOfUse:
        """Compile what models in these weight formats may need (None: in any), or find it in the cache.

        Raises: UnsupportedProgram, for an instruction set that cannot be had.
        """
        choice = self._configure("compiling ahead")
        from accel.cpu.compiling import cache_misses, compile_ahead

        before = cache_misses()
        total = compile_ahead(quants, lambda share: progress("compiling kernels", share))
        return AheadOfUse(total, cache_misses() - before, choice)

    def _configure(self, what: str) -> kernel_cache.Choice:
        try:
            choice = kernel_cache.configure(self._kernel_cache_dir, self._isa)
        except KernelError as error:
            why = str(error).rstrip(".")
            raise UnsupportedProgram(self.name, f"{what}: {why}") from error
        from accel.cpu.cached_code import look_into_cache_first  # imports numba

        look_into_cache_first()
        return choice


def kernel_cache_misses() -> int:
    """How many functions were compiled for this process because its cache on disk did not have them."""
    from accel.cpu.compiling import cache_misses

    return cache_misses()
