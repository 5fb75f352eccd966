"""How loads in progress look: bars on a terminal, a line a phase anywhere else.

Owns the words of the phases. Knows nothing about what comes after the loads.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Protocol

from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from registry.states import State

if TYPE_CHECKING:
    from rich.console import Console

    from inference.supervisor import LoadProgress

SETTLED = frozenset({State.READY, State.FAILED})
LONGER_WORDS = {"compiling kernels": "compiling kernels (once per machine and version)"}
NOT_YET_FULL = 0.99  # rich stops the clock of a bar that is full, and every phase fills it anew


class LoadDisplay(Protocol):
    def show(self, progress: LoadProgress) -> None: ...

    def close(self) -> None: ...


def load_display(console: Console) -> LoadDisplay:
    return Bars(console) if console.is_terminal else Lines(console)


class Bars:
    """One bar a model, with the time since its load began; log records are printed above them."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.fields[name]}: {task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def show(self, progress: LoadProgress) -> None:
        if not self._tasks:
            stderr = sys.stderr
            self._bars.start()  # puts something in the place of sys.stderr that prints above the bars
            _move_log(stderr, sys.stderr)
        name = progress.served_name
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task("", total=1.0, name=escape(name))
        share = progress.share if progress.state in SETTLED else min(progress.share, NOT_YET_FULL)
        self._bars.update(
            self._tasks[name], description=escape(_words(progress.phase)), completed=share
        )

    def close(self) -> None:
        proxy = sys.stderr
        self._bars.stop()
        _move_log(proxy, sys.stderr)


class Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._phases: dict[str, str] = {}

    def show(self, progress: LoadProgress) -> None:
        name, phase = progress.served_name, progress.phase
        if self._phases.get(name) != phase:
            self._phases[name] = phase
            more = "" if progress.state in SETTLED else "…"
            self._console.print(escape(f"{name}: {_words(phase)}{more}"))

    def close(self) -> None:
        """Nothing is left on the screen that would have to be cleared."""


def _words(phase: str) -> str:
    return LONGER_WORDS.get(phase, phase)


def _move_log(old: object, new: object) -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)
