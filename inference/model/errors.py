"""Errors of model files and architectures. Fields first, message derived."""

from __future__ import annotations


class ModelError(Exception):
    """A model file is well formed but describes a model that cannot be built."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"{field}: {reason}.")


class GGUFError(ModelError):
    """A GGUF file is malformed. `field` names the place, `reason` what is wrong with it."""
