"""Model files become artifacts: check the path, read the file, record what it is.

Owns which folders files may come from. The only writer of artifacts; knows no replica and no HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from inference.model.artifact import describe, sha256_file
from registry import services
from registry.errors import PathRefused

if TYPE_CHECKING:
    from registry.models import Artifact


def register_file(
    path: Path,
    *,
    source: str,
    digest: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Artifact:
    """Describe the file and record it; `digest` is its SHA-256 in hex where it was verified just now.

    Raises: GGUFError, ModelError, OSError.
    """
    info = describe(path)
    sha256 = digest or sha256_file(path, progress)
    return services.artifact_register(
        path=str(path), digest=f"sha256:{sha256}", source=source, info=asdict(info)
    )


def register_allowed_path(text: str) -> Artifact:
    """Register a file named by an API caller. Raises: PathRefused unless it lies in a model folder."""
    try:
        path = _in_model_folder(text)
        return register_file(path, source=str(path))
    except OSError as error:
        raise PathRefused(text, f"it cannot be read ({error.strerror})") from error


def _in_model_folder(text: str) -> Path:
    """Raises: PathRefused, OSError."""
    path = Path(text)
    if not path.is_absolute():
        path = Path(settings.MODELS_DIR) / path
    try:
        resolved = path.resolve()
    except (ValueError, RuntimeError) as error:  # a NUL; links that go in circles
        raise PathRefused(text, "no file can have that name") from error
    if not any(resolved.is_relative_to(Path(folder).resolve()) for folder in settings.MODEL_DIRS):
        raise PathRefused(text, "it lies outside the model folders (PANTHEON_MODEL_DIRS)")
    if not resolved.is_file():
        raise PathRefused(text, "there is no such file")
    return resolved
