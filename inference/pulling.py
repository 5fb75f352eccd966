"""Pulling a model file and registering it; and the bar a terminal shows of it.

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
from inference.sources import configured_network, parse_source
from registry import selectors

if TYPE_CHECKING:
    from registry.models import Artifact


def pull_and_register(
    text: str, models_dir: Path, progress: Callable[[int, int | None], None]
) -> Artifact:
    """Fetch unless it is here already. `progress` is told (bytes done, bytes in all or None).

    Raises: SourceError, ModelError, OSError; and whatever `progress` raises, which ends the pull.
    """
    known = selectors.artifact_of_source(text)
    if known is not None and known.file_is_here():
        return known
    from inference.sources.pull import pull  # brings an HTTP client, which few starts need

    source = parse_source(text)
    models_dir.mkdir(parents=True, exist_ok=True)
    network = configured_network(settings.ENVIRON)
    pulled = pull(source, models_dir, network=network, progress=progress)
    return catalogue.register_file(pulled.path, source=text, digest=pulled.digest)


@contextmanager
def shown_progress(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar that appears with the first byte: a source that is refused had none to show."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with ExitStack() as stack:
        bar = Progress(*columns, console=Console(stderr=True))
        task: TaskID | None = None

        def progress(done: int, total: int | None) -> None:
            nonlocal task
            if task is None and done:
                stack.enter_context(bar)
                task = bar.add_task(what, total=total)
            if task is not None:
                bar.update(task, completed=done, total=total)

        yield progress
