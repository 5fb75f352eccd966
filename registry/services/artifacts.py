"""Registering and finding model files. Knows nothing about what is inside one; the caller has read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from registry.errors import ArtifactNotFound, InvalidValue, PathRefused
from registry.models import Artifact
from registry.names import is_digest, printable

INFO_FIELDS = (
    "architecture",
    "name",
    "num_parameters",
    "quant_mix",
    "context_len",
    "weight_bytes",
    "kv_bytes_per_token",
    "has_chat_template",
    "file_bytes",
)


@transaction.atomic
def artifact_register(
    *, path: Path | str, digest: str, source: str, info: Mapping[str, Any]
) -> Artifact:
    """The artifact of that digest, made or brought up to date.

    It keeps its path while the file still lies there, unless `path` is in the server's own models folder
    and the old one is not: a copy registered from elsewhere may be deleted any day.
    `info` has the fields of INFO_FIELDS; fields it lacks keep their defaults.
    Raises: InvalidValue, PathRefused.
    """
    if not str(path).isprintable():
        raise PathRefused(
            ascii(str(path)), "its name holds characters that do not print; rename it"
        )
    if not is_digest(digest):
        raise InvalidValue("digest", "must be sha256: and 64 lower-case hex digits")
    unknown = set(info) - set(INFO_FIELDS)
    if unknown:
        raise InvalidValue("info", f"has unknown fields: {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {"architecture": "unknown", **info}
    values["name"] = printable(str(values.get("name") or Path(path).stem))[:255]
    values["architecture"] = printable(str(values["architecture"]))[:64]
    values["quant_mix"] = printable(str(values.get("quant_mix", "")))[:255]
    known = Artifact.objects.filter(digest=digest).first()
    kept = known.path if known is not None and _keeps_path(known, Path(path)) else str(path)
    artifact, _made = Artifact.objects.update_or_create(
        digest=digest,
        defaults={**values, "path": kept},
        create_defaults={**values, "path": str(path), "source": printable(source)[:1024]},
    )
    return artifact


def _keeps_path(known: Artifact, path: Path) -> bool:
    moves_home = _is_managed(path) and not _is_managed(Path(known.path))
    return known.file_is_here() and not moves_home


def _is_managed(path: Path) -> bool:
    return path.resolve().is_relative_to(Path(settings.MODELS_DIR).resolve())


def artifact_find(wanted: str) -> Artifact:
    """By digest, id, name, file name or a name it was served under, in this order; of several the last one.

    Raises: ArtifactNotFound.
    """
    lookups: list[dict[str, Any]] = [{"digest": wanted}]
    if wanted.isascii() and wanted.isdigit() and len(wanted) <= 18:
        lookups.append({"pk": int(wanted)})
    lookups.append({"name": wanted})
    if wanted and "/" not in wanted:
        lookups.append({"path__endswith": f"/{wanted}"})
    lookups.append({"replicas__served_name": wanted})
    for lookup in lookups:
        found = Artifact.objects.filter(**lookup).order_by("-pk").first()
        if found is not None:
            return found
    raise ArtifactNotFound(wanted[:256])
