"""Wheels for the tests: zip files built in memory, right and wrong ones."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

GGUF = b"GGUF" + bytes(range(256)) * 64


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wheel(
    members: dict[str, bytes], package: str = "demo", requires: tuple[str, ...] = ()
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        lines = [f"Name: {package}", *(f"Requires-Dist: {what}" for what in requires)]
        archive.writestr(f"{package}-1.0.dist-info/METADATA", "\n".join(lines) + "\n\nText\n")
    return buffer.getvalue()


def page(*files: dict) -> bytes:
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "x", "files": list(files)}).encode()


def entry(url: str, content: bytes | None = None, **changes) -> dict:
    """A file of an index page, promised truthfully unless changed."""
    found = {"filename": url.rpartition("/")[2], "url": url, "hashes": {}}
    if content is not None:
        found |= {"hashes": {"sha256": sha256(content)}, "size": len(content)}
    return found | changes


def chunked(model: bytes, name: str = "big.gguf", num_parts: int = 3, digest: str | None = None):
    """(wheel by package) of a model spread over several packages, digest in the first."""
    size = -(-len(model) // num_parts)
    parts = [model[i * size : (i + 1) * size] for i in range(num_parts)]
    packages = {
        f"demo-part{i + 1}": wheel(
            {f"demo_part{i + 1}/data/{name}.part{i:02}": part}, f"demo_part{i + 1}"
        )
        for i, part in enumerate(parts)
    }
    sums = f"{digest or sha256(model)}  {name}\n".encode()
    requires = tuple(f"{package}==1.0" for package in packages)
    return {"demo": wheel({"demo/data/SHA256SUMS": sums}, requires=requires), **packages}
