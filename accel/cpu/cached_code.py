"""Machine code out of numba's cache, without the rules that numba compiles with.

numba gathers its rules of typing and lowering before it looks into its cache: a quarter of a second and 15 MB
that a start which finds all its kernels has no use for. Here the first function that must be compiled
gathers them. Owns that change to numba; knows no kernel.
"""

from __future__ import annotations

from typing import Any

from numba.core import ccallback, dispatcher
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys


class CodeCache(FunctionCache):
    """numba's cache of one function, but for the gathering; its compiler does that itself."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # machine code counts references with it
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def look_into_cache_first() -> None:
    """For all functions that are made hereafter."""
    for maker in (ccallback, dispatcher):
        setattr(maker, FunctionCache.__name__, CodeCache)
