"""The models folder: unfinished pulls, and the names of finished ones.

Owns every path below it. Nothing in it is ever overwritten: a loaded model may be reading it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from typing import TYPE_CHECKING

from inference.model.artifact import sha256_file
from inference.sources.errors import PullInProgress, SourceError, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from inference.sources.download import Fetched, RemoteFile

UNFINISHED = ".unfinished"
_SUFFIX = ".gguf"


@contextlib.contextmanager
def unfinished_pull(models_dir: Path, source_text: str) -> Iterator[Path]:
    """The folder where one source's pull is made, held against other pulls of it.

    It is removed when the pull succeeds or can never succeed, and else kept for the next one to go
    on from. Raises: PullInProgress, OSError.
    """
    folder = models_dir / UNFINISHED / hashlib.sha256(source_text.encode()).hexdigest()[:16]
    fd = _hold(folder, source_text)
    try:
        yield folder
        shutil.rmtree(folder)
    except SourceError as error:
        if not error.resumable:
            shutil.rmtree(folder)
        raise
    finally:
        # A pull that failed before it had a byte leaves nothing behind.
        if folder.exists() and not any(file.stat().st_size for file in folder.iterdir()):
            shutil.rmtree(folder)
        os.close(fd)


def held_file(models_dir: Path, remote: RemoteFile) -> tuple[Path, str, int] | None:
    """(path, digest, bytes) of a remote file of known digest that was pulled before."""
    if remote.sha256 is None:
        return None
    for path in _candidates(models_dir, remote.name, remote.sha256):
        if path.is_file() and sha256_file(path) == remote.sha256:
            return path, remote.sha256, path.stat().st_size
    return None


def place(models_dir: Path, fetched: Fetched) -> Path:
    """Move a complete file to its final name, or find the same file there already.

    Raises: StorageFailed, OSError.
    """
    fd = os.open(models_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Two pulls that choose the same name choose one after the other.
        fcntl.flock(fd, fcntl.LOCK_EX)
        for path in _candidates(models_dir, fetched.name, fetched.digest):
            if not os.path.lexists(path):
                os.replace(fetched.path, path)
                os.fsync(fd)
                return path
            if path.is_file() and sha256_file(path) == fetched.digest:
                return path
    finally:
        os.close(fd)
    raise StorageFailed(f"other files are named {safe_name(fetched.name)}; move them away")


def safe_name(name: str) -> str:
    """A file name from outside as one this server uses: plain characters, no hidden file."""
    stem = name[: -len(_SUFFIX)] if name.lower().endswith(_SUFFIX) else name
    plain = re.sub(r"[^A-Za-z0-9_.+-]", "_", stem).lstrip(".-")[:180]
    return f"{plain or 'model'}{_SUFFIX}"


def _candidates(models_dir: Path, name: str, digest: str) -> list[Path]:
    """The name, and the one it gets when another file has it."""
    plain = safe_name(name)
    return [models_dir / plain, models_dir / f"{plain[: -len(_SUFFIX)]}-{digest[:12]}{_SUFFIX}"]


def _hold(folder: Path, source_text: str) -> int:
    """An open, locked descriptor of the folder."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A pull that just ended has removed the folder between the two lines above.
            if folder.exists() and os.path.samestat(os.fstat(fd), folder.stat()):
                return fd
        except BlockingIOError as error:
            os.close(fd)
            raise PullInProgress(source_text) from error
        os.close(fd)
