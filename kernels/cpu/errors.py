"""Errors of the CPU kernels. Fields first, message derived; knows nothing about who translates them."""

from __future__ import annotations


class KernelError(Exception):
    """Kernels cannot be compiled, or cannot take what they were given."""


class UnknownIsa(KernelError):
    def __init__(self, isa: str, known: tuple[str, ...]) -> None:
        self.isa, self.known = isa, known
        super().__init__(f"There is no instruction set {isa!r}: use one of {', '.join(known)}.")


class IsaRefused(KernelError):
    def __init__(self, isa: str) -> None:
        self.isa = isa
        super().__init__(
            f"The operating system does not let this process use {isa}: leave PANTHEON_CPU_ISA empty."
        )


class AlreadyConfigured(KernelError):
    """Kernels of one process share a folder and an instruction set."""

    def __init__(self, current: object, wanted: object) -> None:
        self.current, self.wanted = current, wanted
        super().__init__(
            f"Kernels of this process already use {current}, so they cannot use {wanted}:"
            " start another process."
        )


class UnsupportedWeight(KernelError):
    """A weight whose format or shape no kernel takes."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"The CPU kernels cannot take the weight {name}: {reason}.")
