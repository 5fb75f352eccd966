"""Sources: the texts that name a model file, parsed into frozen values.

Owns the syntax and its refusals; fetches nothing and looks at no disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from inference.sources.errors import InvalidSource

_MAX_LEN = 2048
_HUB_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,94}[\w-])?", re.ASCII)
_HUB_FILE = re.compile(r"[\w.+ -]+(?:/[\w.+ -]+)*", re.ASCII)
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class HubFile:
    """A file of a Hugging Face repository. `file` is its path there, or a format such as Q4_K_M."""

    owner: str
    repo: str
    file: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.owner}/{self.repo}" + (f":{self.file}" if self.file else "")


@dataclass(frozen=True)
class IndexPackage:
    """The GGUF file inside a wheel of a Python package index."""

    package: str
    version: str | None = None

    def __str__(self) -> str:
        return f"pypi:{self.package}" + (f"=={self.version}" if self.version else "")


@dataclass(frozen=True)
class WebFile:
    """A file behind an https URL, with its digest if the operator knows it."""

    url: str
    sha256: str | None = None

    def __str__(self) -> str:
        return self.url + (f"#sha256={self.sha256}" if self.sha256 else "")

    @property
    def name(self) -> str:
        return unquote(urlsplit(self.url).path).rpartition("/")[2]


@dataclass(frozen=True)
class LocalFile:
    """A file that is here already. It is used where it lies."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def meant(self) -> str:
        """Where nothing is: the source that it may have been meant for; empty: none."""
        parts = self.path.parts
        is_repository = len(parts) == 2 and all(_HUB_NAME.fullmatch(part) for part in parts)
        return f"hf:{self.path}" if is_repository else ""


Source: TypeAlias = HubFile | IndexPackage | WebFile | LocalFile


def parse_source(text: str) -> Source:
    """The source a text names: hf:owner/repo[:file], pypi:package[==version], an https URL
    (its digest after #sha256=), or a path.

    Raises: InvalidSource.
    """
    text = text.strip()
    if not text or len(text) > _MAX_LEN or not text.isprintable():
        raise InvalidSource(text, f"it must be 1 to {_MAX_LEN} printable characters")
    scheme, _, rest = text.partition(":")
    match scheme.lower():
        case "hf":
            return _parse_hub(text, rest)
        case "pypi":
            return _parse_package(text, rest)
        case "https":
            return _parse_url(text)
        case "http":
            raise InvalidSource(text, "only https URLs are fetched")
    if _SCHEME.match(text):
        raise InvalidSource(text, "known kinds are hf:, pypi:, https:// and plain paths")
    try:
        return LocalFile(Path(text).expanduser())
    except RuntimeError as error:  # ~name of an account that does not exist
        raise InvalidSource(text, "no such account has a home folder here") from error


def _parse_hub(text: str, rest: str) -> HubFile:
    repository, has_file, file = rest.partition(":")
    owner, _, repo = repository.partition("/")
    if not (_HUB_NAME.fullmatch(owner) and _HUB_NAME.fullmatch(repo)) or ".." in repository:
        raise InvalidSource(text, "write hf:owner/repo or hf:owner/repo:file.gguf")
    if not has_file:
        return HubFile(owner, repo)
    if not _HUB_FILE.fullmatch(file) or any(part.strip(". ") == "" for part in file.split("/")):
        raise InvalidSource(text, "the file must be a path inside the repository")
    return HubFile(owner, repo, file)


def _parse_package(text: str, rest: str) -> IndexPackage:
    package, has_version, version = rest.partition("==")
    if not _PACKAGE.fullmatch(package):
        raise InvalidSource(text, "write pypi:package or pypi:package==version")
    if not has_version:
        return IndexPackage(package)
    if not _VERSION.fullmatch(version):
        raise InvalidSource(text, "the version must be one exact version, such as 1.0.2")
    return IndexPackage(package, version)


def _parse_url(text: str) -> WebFile:
    url, _, fragment = text.partition("#")
    parts = _split_url(text, url)
    if not parts.hostname:
        raise InvalidSource(text, "the URL has no host")
    if parts.username is not None or parts.password is not None:
        raise InvalidSource(text, "URLs with a user name or password are not stored")
    if " " in url or "\\" in url:
        raise InvalidSource(text, "the URL holds a space or a backslash")
    source = WebFile(url, _parse_digest(text, fragment))
    if not source.name.lower().endswith(".gguf"):
        raise InvalidSource(text, "the URL's path must end in .gguf")
    return source


def _split_url(text: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # Reading the port is what checks it.
        if parts.port == 0:
            raise InvalidSource(text, "port 0 does not exist")
    except ValueError as error:
        raise InvalidSource(text, "the URL is malformed") from error
    return parts


def _parse_digest(text: str, fragment: str) -> str | None:
    if not fragment:
        return None
    kind, _, digest = fragment.partition("=")
    if kind != "sha256" or not _SHA256.fullmatch(digest.lower()):
        raise InvalidSource(text, "what follows # must be sha256= and 64 hexadecimal digits")
    return digest.lower()
