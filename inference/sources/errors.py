"""Errors of getting a model file. Fields first, message derived; knows nothing about who shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class SourceError(Exception):
    """A model file could not be had. `resumable`: what was fetched is worth keeping for a later pull."""

    resumable: ClassVar[bool] = False


class InvalidSource(SourceError):
    """The text does not name a source."""

    def __init__(self, text: str, reason: str) -> None:
        self.text, self.reason = text, reason
        super().__init__(f"{text[:200]!a} is no model source: {reason}.")


class SourceUnavailable(SourceError):
    """The other side, or the way to it, failed. `transient`: the same request may work later."""

    resumable = True

    def __init__(self, where: str, reason: str, *, transient: bool = False) -> None:
        self.where, self.reason, self.transient = where, reason, transient
        super().__init__(f"{where} {reason}.")


class NoSuchFile(SourceError):
    """A path leads to nothing. `meant`: the source that was perhaps meant; empty: none is known."""

    def __init__(self, path: str, meant: str = "") -> None:
        self.path, self.meant = path, meant
        rather = f"; a repository of Hugging Face is written {meant}" if meant else ""
        super().__init__(f"{path} cannot be read: there is no such file{rather}.")


class ForbiddenAddress(SourceError):
    """A URL, or a redirect, leads where this server does not go."""

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"{where} is not fetched: {reason}.")


class DigestMismatch(SourceError):
    """The bytes are not the ones that were promised."""

    def __init__(self, what: str, expected: str, actual: str) -> None:
        self.what, self.expected, self.actual = what, expected, actual
        super().__init__(
            f"{what} has SHA-256 {actual}, but {expected} was promised; the file was discarded."
        )


class LengthMismatch(SourceError):
    """A file is longer or shorter than was promised."""

    def __init__(self, what: str, expected_bytes: int, actual_bytes: int) -> None:
        self.what, self.expected_bytes, self.actual_bytes = what, expected_bytes, actual_bytes
        super().__init__(f"{what} has {actual_bytes} bytes, but {expected_bytes} were promised.")


class TooLarge(SourceError):
    """A file exceeds the limit of this server."""

    def __init__(self, what: str, num_bytes: int, limit_bytes: int) -> None:
        self.what, self.num_bytes, self.limit_bytes = what, num_bytes, limit_bytes
        super().__init__(
            f"{what} has {num_bytes} bytes or more; the limit for one file is {limit_bytes}."
        )


class DiskFull(SourceError):
    """There is no room for the file."""

    resumable = True

    def __init__(self, what: str, wanted_bytes: int, free_bytes: int) -> None:
        self.what, self.wanted_bytes, self.free_bytes = what, wanted_bytes, free_bytes
        super().__init__(
            f"{what} needs {wanted_bytes / 2**20:.0f} MiB of disk, but only"
            f" {free_bytes / 2**20:.0f} MiB are free; remove models that are not used."
        )


class NoModelFile(SourceError):
    """What was named holds no GGUF file, or several and none was chosen."""

    def __init__(self, what: str, reason: str, found: Sequence[str] = ()) -> None:
        self.what, self.reason, self.found = what, reason, tuple(found)
        listed = ", ".join(ascii(name)[1:-1] for name in self.found[:12])
        more = f" and {len(self.found) - 12} more" if len(self.found) > 12 else ""
        super().__init__(f"{what} {reason}" + (f"; found: {listed}{more}." if listed else "."))


class BadArchive(SourceError):
    """A wheel is damaged, or made to do harm."""

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(f"{what} cannot be unpacked: {reason}.")


class PullInProgress(SourceError):
    """The same source is being pulled already."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is already being pulled; wait for that pull to end.")


class StorageFailed(SourceError):
    """The models folder could not be written."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The models folder cannot be used: {reason}.")
