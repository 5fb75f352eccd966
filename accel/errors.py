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


class NoDriver(AccelError):
    """There is no usable CUDA driver on this host. `why` says what is missing."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"No CUDA driver can be used: {why}.")


class DieFailed(AccelError):
    """The driver reported an error on a die. What ran there is lost; other dies are not concerned."""

    def __init__(self, ordinal: int, why: str) -> None:
        self.ordinal, self.why = ordinal, why
        super().__init__(f"Die {ordinal} failed: {why}.")


class DieHung(DieFailed):
    """A die was given work and never finished it. What the process holds there cannot be given back."""

    def __init__(self, ordinal: int, waited_s: float) -> None:
        self.waited_s = waited_s
        super().__init__(
            ordinal,
            f"it hangs: work that it was given was not done after {waited_s:.0f} s. Start the server"
            " again to use it, or the host where that does not help; dmesg may say why",
        )
