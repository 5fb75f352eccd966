"""CUDA graphs: launches recorded once, then put in a die's stream by one call.

Owns the calls, by ctypes, as pycuda has none of them; knows nothing about what is launched. A launch
costs the host 5 to 80 microseconds and a step has hundreds; drivers from 11.4 on (470, the last for
Kepler) take them all at once.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

from accel.errors import DieFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel.cuda.die import Die

_LIBRARY = "libcuda.so.1"  # loaded already: pycuda asked for it by this name
_THREAD_LOCAL = 1  # capture mode: other threads may go on allocating
_CALLS = (
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
)


class Graph:
    """Made by `record`; gone with its die's context, or earlier by `close`."""

    def __init__(self, die: Die, handle: ctypes.c_void_p) -> None:
        self._die, self._handle = die, handle

    def launch(self) -> None:
        """Put the recorded work in the die's stream. The die must be current. Raises: DieFailed."""
        _check(self._die, _library().cuGraphLaunch(self._handle, _stream(self._die)))

    def close(self) -> None:
        _library().cuGraphExecDestroy(self._handle)


def record(die: Die, work: Callable[[], None]) -> Graph | None:
    """Record what `work` puts in the die's stream, without running it. The die must be current.

    None where the driver has no graphs, or refuses to record. Raises: what `work` raises.
    """
    if not is_available():
        return None
    library, stream = _library(), _stream(die)
    graph, runnable = ctypes.c_void_p(), ctypes.c_void_p()
    if library.cuStreamBeginCapture_v2(stream, _THREAD_LOCAL):
        return None
    try:
        work()
    finally:
        failed = library.cuStreamEndCapture(stream, ctypes.byref(graph))
    if failed:
        return None
    failed = library.cuGraphInstantiateWithFlags(
        ctypes.byref(runnable), graph, ctypes.c_ulonglong(0)
    )
    library.cuGraphDestroy(graph)
    return None if failed else Graph(die, runnable)


def is_available() -> bool:
    """Whether the loaded driver knows all the calls."""
    return all(hasattr(_library(), name) for name in _CALLS)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(_LIBRARY)


def _stream(die: Die) -> ctypes.c_void_p:
    return ctypes.c_void_p(die.stream.handle)


def _check(die: Die, result: int) -> None:
    if result:
        raise DieFailed(die.ordinal, f"its work could not be launched (CUDA error {result})")
