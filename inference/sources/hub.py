"""The Hugging Face hub: which file of a repository is meant, at which commit, with which digest.

Owns the choice of the file; the bytes are for `download`. Source: the hub's HTTP API, `/api/models`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from inference.sources.download import RemoteFile
from inference.sources.errors import NoModelFile, SourceUnavailable

if TYPE_CHECKING:
    from inference.sources.fetch import Fetcher
    from inference.sources.source import HubFile

_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


class _Large(msgspec.Struct):
    sha256: str
    size: int


class _Sibling(msgspec.Struct):
    rfilename: str
    size: int | None = None
    lfs: _Large | None = None


class _Repository(msgspec.Struct):
    sha: str
    siblings: list[_Sibling] = []


def find_hub_file(fetcher: Fetcher, source: HubFile) -> RemoteFile:
    """The one GGUF file a source means. Raises: SourceError."""
    hub = fetcher.network.hub_url.rstrip("/")
    where = f"{source.owner}/{source.repo}"
    answer = fetcher.document(f"{hub}/api/models/{where}?blobs=true", accept="application/json")
    repository = _decode(answer.body, where)
    chosen = _choose(source, [file for file in repository.siblings if _is_gguf(file.rfilename)])
    # Pinned to the commit that was listed: the digest belongs to that one.
    path = quote(f"{where}/resolve/{repository.sha}/{chosen.rfilename}")
    return RemoteFile(
        url=f"{hub}/{path}",
        name=chosen.rfilename.rpartition("/")[2],
        sha256=chosen.lfs.sha256 if chosen.lfs else None,
        num_bytes=chosen.lfs.size if chosen.lfs else chosen.size,
    )


def _decode(body: bytes, where: str) -> _Repository:
    try:
        repository = msgspec.json.decode(body, type=_Repository)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceUnavailable(where, "was described in a way that cannot be read") from error
    digests = [file.lfs.sha256 for file in repository.siblings if file.lfs]
    if not re.fullmatch(r"[0-9a-f]{40,64}", repository.sha) or not all(
        re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests
    ):
        raise SourceUnavailable(where, "was described with digests that are none")
    return repository


def _choose(source: HubFile, files: list[_Sibling]) -> _Sibling:
    where, names = str(source), [file.rfilename for file in files]
    if not files:
        raise NoModelFile(where, "holds no GGUF file")
    if source.file is not None:
        files = _matching(source.file, files)
        if not files:
            raise NoModelFile(where, "names no GGUF file of that repository", names)
    else:
        # Vision projectors lie beside the model they belong to.
        files = [file for file in files if not file.rfilename.lower().startswith("mmproj")] or files
    if len(files) > 1:
        raise NoModelFile(
            where, "means several GGUF files; add one after a colon", [f.rfilename for f in files]
        )
    if _SPLIT.search(files[0].rfilename):
        raise NoModelFile(where, "is one part of a split model; whole files are served", names)
    return files[0]


def _matching(wanted: str, files: list[_Sibling]) -> list[_Sibling]:
    """The file of exactly that path; else those whose name ends in the format, as `-Q4_K_M.gguf`."""
    exact = [file for file in files if file.rfilename == wanted]
    ending = re.compile(rf"(?:^|[-._/]){re.escape(wanted)}\.gguf$", re.IGNORECASE)
    return exact or [file for file in files if ending.search(file.rfilename)]


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf") and name.isprintable()
