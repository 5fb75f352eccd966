"""Errors of the backends. Fields first, message derived; knows nothing about who translates them."""

from __future__ import annotations


class AccelError(Exception):
    """A backend could not compile or run a program."""


class UnsupportedProgram(AccelError):
    """The backend has no kernel for something the program holds."""

    def __init__(self, backend: str, what: str) -> None:
        self.backend, self.what = backend, what
        super().__init__(f"The {backend} backend cannot run {what}.")


class OutOfMemory(AccelError):
    """Memory for weights, pages or buffers could not be had."""

    def __init__(self, what: str, wanted_bytes: int) -> None:
        self.what, self.wanted_bytes = what, wanted_bytes
        super().__init__(
            f"Not enough memory for {what}: {wanted_bytes / 2**20:.0f} MiB were wanted."
        )
