"""The kernel's permission to use AMX tiles, for the whole process.

Owns the one system call (Linux, x86-64); knows no kernel. Tile registers are 8 KiB, so the kernel gives
them only to those who ask, and refuses where a thread's alternate signal stack is too small for them.
"""

from __future__ import annotations

import ctypes
import platform

_ARCH_PRCTL, _REQ_XCOMP_PERM, _XTILEDATA = 158, 0x1023, 18


def request() -> bool:
    """Whether this process may use AMX tiles, from now on. Asking twice does no harm."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.argtypes, syscall.restype = [ctypes.c_long] * 3, ctypes.c_long
    return bool(syscall(_ARCH_PRCTL, _REQ_XCOMP_PERM, _XTILEDATA) == 0)
