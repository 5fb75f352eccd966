"""One file over HTTP into a part file: resumed where it stopped, counted, hashed, never trusted.

Owns the part file and its note of what the remote file was; where the file goes in the end, and
what is in it, is for others.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, TypeAlias

from inference.sources.errors import (
    DigestMismatch,
    DiskFull,
    LengthMismatch,
    SourceError,
    SourceUnavailable,
    TooLarge,
)
from inference.sources.fetch import read_raw, require_success, shown_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from inference.sources.fetch import Fetcher

    # Told (bytes done, bytes in all if known). Raising from it ends the pull; a later one resumes.
    Progress: TypeAlias = Callable[[int, int | None], None]

ATTEMPTS = 4
# Kept free: a full disk stops the database too.
DISK_RESERVE_BYTES = 256 * 2**20
ROOM_BYTES = 16 * 2**20  # for so much at a time the disk is asked
_READ_BYTES = 2**20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


@dataclass(frozen=True)
class RemoteFile:
    """A file to fetch and what is promised about it."""

    url: str
    name: str
    sha256: str | None
    num_bytes: int | None


@dataclass(frozen=True)
class Fetched:
    """A complete, verified file that has no final place yet. `name` is what its origin calls it."""

    path: Path
    name: str
    digest: str
    num_bytes: int


@dataclass(frozen=True)
class _Note:
    """What the remote file was when the part was begun; kept beside it."""

    url: str
    etag: str | None
    num_bytes: int | None


def download(fetcher: Fetcher, remote: RemoteFile, part: Path, progress: Progress) -> Fetched:
    """Fetch a file into `part`, going on where an earlier attempt stopped.

    Raises: SourceError. The part stays for the next attempt unless its bytes proved wrong.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(fetcher.network.retry_delay_s * 2 ** (attempt - 1))
        try:
            with part.open("a+b") as file:
                return _attempt(fetcher, remote, part, file, progress)
        except SourceUnavailable as error:
            if not error.transient or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def require_disk(folder: Path, what: str, num_bytes: int) -> None:
    """Refuse what the disk has no room for. Raises: DiskFull."""
    free = max(shutil.disk_usage(folder).free - DISK_RESERVE_BYTES, 0)
    if num_bytes > free:
        raise DiskFull(what, num_bytes, free)


def _attempt(
    fetcher: Fetcher, remote: RemoteFile, part: Path, file: IO[bytes], progress: Progress
) -> Fetched:
    note_path = part.with_name(part.name + ".json")
    note = _read_note(note_path)
    begin = _resumable_bytes(remote, note, file)
    with fetcher.stream(remote.url, _range_headers(begin, note)) as response:
        if begin and note is not None and _continues(response, begin, note):
            total = note.num_bytes
        else:
            _require_whole(response, remote, file, note_path)
            begin, total = 0, _promised_bytes(response)
            file.truncate(0)
            _write_note(note_path, _Note(remote.url, _strong_etag(response), total))
        _check_size(fetcher, remote, total, begin, part)
        digest = _hash_prefix(file, begin)
        done = room_until = begin
        progress(done, total)
        for chunk in read_raw(response):
            done += len(chunk)
            if done > room_until:
                # Again and again: the length may be unknown, and others write to the disk too.
                wanted = ROOM_BYTES if total is None else min(ROOM_BYTES, max(total - done, 0))
                require_disk(part.parent, remote.name, len(chunk) + wanted)
                room_until = done + wanted
            if done > fetcher.network.max_file_bytes:
                raise TooLarge(remote.name, done, fetcher.network.max_file_bytes)
            file.write(chunk)
            digest.update(chunk)
            progress(done, total)
    if total is not None and done != total:
        _discard(file, note_path)
        raise LengthMismatch(remote.name, total, done)
    file.flush()
    os.fsync(file.fileno())
    actual = digest.hexdigest()
    if remote.sha256 is not None and actual != remote.sha256:
        _discard(file, note_path)
        if begin:
            raise SourceUnavailable(shown_url(remote.url), "was resumed wrongly", transient=True)
        raise DigestMismatch(remote.name, remote.sha256, actual)
    note_path.unlink()
    return Fetched(part, remote.name, actual, done)


def _resumable_bytes(remote: RemoteFile, note: _Note | None, file: IO[bytes]) -> int:
    """How much of the part can be kept: none unless a later check will notice another file."""
    have = file.seek(0, os.SEEK_END)
    if note is None or note.url != remote.url or note.num_bytes is None:
        return 0
    if note.etag is None and remote.sha256 is None:
        return 0
    # The last byte is fetched again, so that there is always a range to ask for.
    keep = max(min(have, note.num_bytes - 1), 0)
    file.truncate(keep)
    return keep


def _range_headers(begin: int, note: _Note | None) -> dict[str, str]:
    headers = {"Accept": "*/*"}
    if begin and note is not None:
        headers["Range"] = f"bytes={begin}-"
        if note.etag is not None:
            headers["If-Range"] = note.etag
    return headers


def _continues(response: httpx.Response, begin: int, note: _Note) -> bool:
    """Whether the response is the rest of the same file, from `begin` on."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status_code != 206 or found is None:
        return False
    return (int(found[1]), int(found[2])) == (begin, note.num_bytes)


def _require_whole(
    response: httpx.Response, remote: RemoteFile, file: IO[bytes], note_path: Path
) -> None:
    """Refuse what is not the file from its start. A part that cannot be continued is given up."""
    if response.status_code in (206, 416):
        _discard(file, note_path)
        raise SourceUnavailable(shown_url(remote.url), "could not be resumed", transient=True)
    require_success(response)


def _promised_bytes(response: httpx.Response) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isascii() and length.isdigit() else None


def _check_size(
    fetcher: Fetcher, remote: RemoteFile, total: int | None, begin: int, part: Path
) -> None:
    if total is None:
        return
    if remote.num_bytes is not None and total != remote.num_bytes:
        raise LengthMismatch(remote.name, remote.num_bytes, total)
    if total > fetcher.network.max_file_bytes:
        raise TooLarge(remote.name, total, fetcher.network.max_file_bytes)
    require_disk(part.parent, remote.name, total - begin)


def _hash_prefix(file: IO[bytes], num_bytes: int) -> hashlib._Hash:
    digest = hashlib.sha256()
    file.seek(0)
    left = num_bytes
    while left:
        piece = file.read(min(left, _READ_BYTES))
        if not piece:
            raise SourceError("A partly downloaded file became shorter while it was read.")
        digest.update(piece)
        left -= len(piece)
    return digest


def _strong_etag(response: httpx.Response) -> str | None:
    etag = response.headers.get("ETag")
    return None if etag is None or etag.startswith("W/") else etag


def _read_note(path: Path) -> _Note | None:
    try:
        found = json.loads(path.read_text())
        return _Note(found["url"], found["etag"], found["num_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        # Without a readable note nothing is known of the part: it is begun anew.
        return None


def _write_note(path: Path, note: _Note) -> None:
    path.write_text(json.dumps({"url": note.url, "etag": note.etag, "num_bytes": note.num_bytes}))


def _discard(file: IO[bytes], note_path: Path) -> None:
    file.truncate(0)
    note_path.unlink(missing_ok=True)
