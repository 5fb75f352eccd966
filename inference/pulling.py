"""Pulling a model file and registering it, with progress on the terminal and in a job row.

Owns the way from a source's text to an artifact. The fetching is `inference.sources`'s, the row the
registry's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from inference import catalogue
from inference.sources import configured_network, parse_source, pull
from registry import selectors

if TYPE_CHECKING:
    from registry.models import Artifact


def pull_and_register(text: str, models_dir: Path, *, actor: str, show_progress: bool) -> Artifact:
    """Fetch unless it is here already. Raises: SourceError, ModelError, OSError."""
    known = selectors.artifact_of_source(text)
    if known is not None and known.file_is_here():
        return known
    source = parse_source(text)
    models_dir.mkdir(parents=True, exist_ok=True)
    with _shown_progress(f"pulling {text}", is_shown=show_progress) as progress:
        pulled = pull(
            source, models_dir, network=configured_network(settings.ENVIRON), progress=progress
        )
    return catalogue.register_file(pulled.path, source=text, digest=pulled.digest)


@contextmanager
def _shown_progress(what: str, *, is_shown: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A bar that appears with the first byte: a source that is refused had none to show."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with ExitStack() as stack:
        bar = Progress(*columns, console=Console(stderr=True), disable=not is_shown)
        task: TaskID | None = None

        def progress(done: int, total: int | None) -> None:
            nonlocal task
            if task is None and done:
                stack.enter_context(bar)
                task = bar.add_task(what, total=total)
            if task is not None:
                bar.update(task, completed=done, total=total)

        yield progress
