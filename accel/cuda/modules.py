"""The kernels one die has loaded: compiled or cached, uploaded once, ready to launch.

Owns the way from a catalogue record to a prepared function; knows no program. Calls need the die to be
current.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.cuda.images import load_image

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel.cuda.die import Die
    from kernels.cuda.catalogue import Kernel
    from kernels.cuda.launches import Grid

    Launch = Callable[..., None]  # (grid, *arguments), asynchronous on the die's stream


class Modules:
    """Launchable kernels of one die."""

    def __init__(self, die: Die) -> None:
        self._die = die
        self._modules: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
        self._launches: dict[Kernel, Launch] = {}

    def launch_of(self, kernel: Kernel) -> Launch:
        """Raises: NoCompiler, KernelRefused, ArchUnsupported, DieFailed."""
        if kernel not in self._launches:
            self._launches[kernel] = self._prepared(kernel)
        return self._launches[kernel]

    def _prepared(self, kernel: Kernel) -> Launch:
        key = (kernel.file, kernel.defines)
        if key not in self._modules:
            image = load_image(kernel.source, self._die.arch, dict(kernel.defines))
            self._modules[key] = self._die.load_module(image)
        function = self._modules[key].get_function(kernel.entry)
        function.prepare(kernel.arguments)
        threads, stream = (kernel.threads, 1, 1), self._die.stream

        def launch(grid: Grid, *arguments: int | float) -> None:
            function.prepared_async_call(grid, threads, stream, *arguments)

        return launch
