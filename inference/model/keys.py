"""Checked reading of a model file's metadata, key by key.

Owns the translation of absent, mistyped or absurd values into a ModelError that names the key; knows
nothing about what the values mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference.model.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Keys:
    """The keys of one architecture: `size("block_count", ...)` reads "llama.block_count"."""

    metadata: Mapping[str, Any]
    architecture: str

    def name(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def has(self, key: str) -> bool:
        return self.name(key) in self.metadata

    def size(self, key: str, *, most: int, least: int = 1, default: int | None = None) -> int:
        """A whole number from `least` to `most`. Raises: ModelError."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelError(self.name(key), f"must be a whole number, not {_shown(value)}")
        if not least <= value <= most:
            raise ModelError(self.name(key), f"is {value}, outside {least} to {most}")
        return value

    def real(self, key: str, *, least: float, most: float, default: float | None = None) -> float:
        """A finite number from `least` to `most`. Raises: ModelError."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(self.name(key), f"must be a number, not {_shown(value)}")
        if not (math.isfinite(value) and least <= value <= most):
            raise ModelError(self.name(key), f"is {value}, outside {least} to {most}")
        return float(value)

    def text(self, key: str, default: str) -> str:
        """Raises: ModelError."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise ModelError(self.name(key), f"must be a string, not {_shown(value)}")
        return value

    def _get(self, key: str, default: Any) -> Any:
        value = self.metadata.get(self.name(key), default)
        if value is None:
            raise ModelError(self.name(key), "is missing from the file's metadata")
        return value


def _shown(value: Any) -> str:
    """A value short enough for a message; lists, which may be long, by their type alone."""
    if isinstance(value, bool | int | float | str):
        return f"{type(value).__name__} {str(value)[:40]!r}"
    return type(value).__name__
