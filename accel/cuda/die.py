"""A die as one replica uses it: a context, a stream, and an account of its bytes.

Owns the context's life and whose turn it is on a thread (push/pop), transfers in stream order, and
waiting by polling. Knows no model and no placement.

A replica has a context of its own on each of its dies: an error that spoils a context takes one replica
down, and closing the context gives every byte of it back, whatever was forgotten. One thread at a time
uses a die: the loader while it loads, then the replica's worker, at last whoever closes it.

Of a die that hangs nothing can be given back: freeing memory and destroying a context wait for it. Its
contexts are abandoned as they are, and so are those that wait for it on other dies.
"""

from __future__ import annotations

import ctypes
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from accel.cuda import driver, hung
from accel.cuda.hung import Mark
from accel.cuda.memory import Account, Pinned, Region
from accel.errors import DieFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

FIRST_POLL_S = 50e-6
LONGEST_POLL_S = 500e-6  # a step takes milliseconds: polling longer than this would show in it

_open: set[Die] = set()
_open_lock = threading.Lock()


def own_bytes(ordinal: int) -> int:
    """What this process has allocated on that die, through all its contexts there.

    Never less than what the driver has given it: counted before it is had, and until it is given back.
    What was abandoned is no longer this process's to give: it shows as taken by others.
    """
    with _open_lock:
        return sum(d.account.allocated_bytes for d in _open if d.ordinal == ordinal)


class Die:
    """Open on `ordinal` (the driver's own count). Calls other than `current` and `close` need `current`.

    arch: what its images are compiled for, "sm_37" or HOST_ARCH for an emulated die; stream: a pycuda
    Stream, all of this replica's work on the die; account: the bytes held.
    is_abandoned: it hangs, or waits for one that does; nothing but `close` may follow.
    Raises, whatever is called: NoDriver, OutOfMemory, DieFailed; at once DieHung where it hung before.
    """

    def __init__(self, ordinal: int) -> None:
        hung.check(ordinal)
        self._driver = driver.load()
        self.ordinal = ordinal
        self.is_abandoned = False
        self.account = Account(ordinal)
        self.peers: set[Die] = set()  # whose memory this context reaches
        with driver.errors_of(ordinal):
            device = self._driver.Device(ordinal)
            major, minor = device.compute_capability()
            self.arch = driver.HOST_ARCH if driver.is_emulated() else f"sm_{major}{minor}"
            self._context: Any = device.make_context()
            try:
                self.stream: Any = self._driver.Stream()
                self._aside: Any = self._driver.Stream()
                self._events: list[Any] = []
                self._modules: list[Any] = []
                self._end: Any = self.new_event()
            except BaseException:
                self._context.detach()
                raise
            self._context.pop()
        with _open_lock:
            _open.add(self)

    # ---- the context ------------------------------------------------------------------------------

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this die the thread's own within the block; the driver's errors leave it as ours.

        Blocks nest, of the same die or of others.
        """
        with driver.errors_of(self.ordinal):
            self._context.push()
            try:
                yield
            finally:
                self._context.pop()  # the thread's own affair: no die is waited for

    @property
    def context(self) -> Any:
        """The pycuda Context, for copies between dies; None once closed."""
        return self._context

    def close(self) -> None:
        """Give everything back, from any thread, in whatever state the die is. Safe to call twice.

        A spoilt context refuses even to be tidied up; what it held is free all the same. Of a die that
        hangs nothing is touched, so that this returns.
        """
        if self._context is None or self.is_abandoned:
            return
        if hung.is_hung(self.ordinal) or not self._comes_to_rest(hung.patience_s(())):
            self._abandon()
            return
        context, self._context = self._context, None
        with suppress(self._driver.Error):
            context.push()
        self.account.release_all(self._driver)
        self._events.clear()
        self._modules.clear()
        self.peers.clear()
        del self.stream, self._aside, self._end
        with suppress(self._driver.Error):
            context.detach()  # destroys it, and takes it off this thread
        with _open_lock:
            _open.remove(self)

    def _comes_to_rest(self, longest_s: float) -> bool:
        """Whether what it was given ends, or is lost with its context. Which die is at fault is not asked."""
        try:
            with self.current():
                self.record(self._end)
                return self._is_passed(self._end, longest_s)
        except DieFailed:
            return True

    def _abandon(self) -> None:
        """Leave all as it is until the process ends: whatever drops a handle waits for the die, too."""
        with _open_lock:
            if not self.is_abandoned:
                self.is_abandoned = True
                _open.remove(self)
                # One reference that nobody drops, not even the interpreter as it ends.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    # ---- memory -----------------------------------------------------------------------------------

    def allocate(self, num_bytes: int, what: str) -> Region:
        """`num_bytes` (> 0) on the die, not zeroed, at a multiple of 256; `what` is named in errors."""
        return self.account.allocate(self._driver, num_bytes, what)

    def free(self, region: Region) -> None:
        """Give one region back early; `close` gives back the rest."""
        self.account.free(region)

    def pinned(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Pinned:
        """Page-locked host memory, whose `array` the driver copies to and from without the host's help."""
        return self.account.pinned(self._driver, shape, dtype)

    def free_pinned(self, pinned: Pinned) -> None:
        """Give it back early. Nothing in the stream may still use it."""
        self.account.free_pinned(self._driver, pinned)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of the whole die, whoever uses them."""
        free, total = self._driver.mem_get_info()
        return int(free), int(total)

    # ---- work in stream order ---------------------------------------------------------------------

    def load_module(self, image: bytes) -> Any:
        """The pycuda Module of a compiled image; it is gone with the die."""
        module = self._driver.module_from_buffer(image)
        self._modules.append(module)
        return module

    def copy_in(self, address: int, source: npt.NDArray[np.generic]) -> None:
        """Copy a C-contiguous host array to `address`. From pinned memory the source must stay as it is
        until the stream has passed; from other memory the call waits."""
        self._driver.memcpy_htod_async(address, source, self.stream)

    def copy_out(self, target: npt.NDArray[np.generic], address: int) -> None:
        """Copy from `address` to a host array; it holds the values once the stream has passed."""
        self._driver.memcpy_dtoh_async(target, address, self.stream)

    def fetch(self, target: npt.NDArray[np.generic], address: int) -> None:
        """Copy from what nothing in the stream writes any more, and wait for that copy alone."""
        self._driver.memcpy_dtoh_async(target, address, self._aside)
        self._end.record(self._aside)
        self.wait(self._end)

    def copy_within(self, target: int, source: int, num_bytes: int) -> None:
        self._driver.memcpy_dtod_async(target, source, num_bytes, self.stream)

    def fill_zero(self, address: int, num_bytes: int) -> None:
        self._driver.memset_d8_async(address, 0, num_bytes, self.stream)

    def new_event(self) -> Any:
        """A pycuda Event to record as often as needed; it is gone with the die."""
        event = self._driver.Event(self._driver.event_flags.DISABLE_TIMING)
        self._events.append(event)
        return event

    def record(self, event: Any) -> None:
        """Let the event be passed once everything given to the stream so far has run."""
        event.record(self.stream)

    def follow(self, event: Any) -> None:
        """Let what comes next in this stream wait for an event of any die. The host does not wait."""
        self.stream.wait_for_event(event)

    def wait(self, event: Any, before: Sequence[Mark] = ()) -> None:
        """Return once the event is passed. Polls, so that many dies share few cores.

        before: what was recorded on other dies, and on this one, that this may have to wait for; oldest
        first. Raises: DieHung, of the die that holds it up, past their patience. It is abandoned then, and so
        are those that wait for it.
        """
        marks = (*before, Mark(self, event))
        longest_s, started_s = hung.patience_s(marks), time.monotonic()
        while not self._is_passed(event, longest_s):
            culprit = hung.who_hangs(marks)
            if culprit is not None:
                for die in {mark.die for mark in marks}:
                    if die is culprit or not die._comes_to_rest(hung.REST_S):
                        die._abandon()
                raise hung.remember(culprit.ordinal, time.monotonic() - started_s)

    def synchronize(self, before: Sequence[Mark] = ()) -> None:
        """Return once everything in the stream has run. `before`, and what it raises, as `wait`."""
        self.record(self._end)
        self.wait(self._end, before)

    def _is_passed(self, event: Any, longest_s: float) -> bool:
        """Poll until it is, or for so long."""
        started_s, pause_s = time.monotonic(), FIRST_POLL_S
        while not event.query():
            if time.monotonic() - started_s > longest_s or hung.time_is_up():
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_POLL_S)
        return True
