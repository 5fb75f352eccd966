"""A sequence's tokens on their way from the worker thread to one reader. Knows no scheduling.

The worker writes to a `StreamFeed`, the reader holds the `TokenStream`; the worker's lock guards
both. The worker never waits for a reader: tokens pile up until the scheduler pauses the sequence. It
holds no reference to a `TokenStream`, so one that is dropped is collected, and aborts its sequence.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from inference.engine.errors import BrokenInvariant
from inference.engine.params import Usage

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from inference.engine.admission import Admission
    from inference.engine.errors import EngineError
    from inference.engine.params import Finish, Progress, Token
    from inference.engine.sequence import Sequence

Waiter = asyncio.Future[None]

MAX_TAKEN = 32  # tokens at a time, so that catching up is not one huge event


class StreamFeed:
    """The worker's end. Every method is called under the worker's lock."""

    def __init__(self) -> None:
        self.unread: deque[Token] = deque()
        self.finish: Finish | None = None
        self.error: EngineError | None = None
        self.waiter: Waiter | None = None

    def put(self, token: Token) -> None:
        self.unread.append(token)

    def end(self, finish: Finish, error: EngineError | None = None) -> None:
        """The one finish of the sequence; `error` is raised to the reader."""
        if self.finish is not None:
            raise BrokenInvariant("a sequence finished twice")
        self.finish, self.error = finish, error

    def drop_unread(self) -> int:
        """Forget what nobody will read; how many tokens that were."""
        count = len(self.unread)
        self.unread.clear()
        return count

    def take_unread(self) -> tuple[Token, ...]:
        """The oldest ones. Raises: the error the stream ended with, after the last token."""
        if len(self.unread) <= MAX_TAKEN:
            tokens = tuple(self.unread)
            self.unread.clear()
        else:
            tokens = tuple(self.unread.popleft() for _ in range(MAX_TAKEN))
        if not tokens and self.error is not None:
            raise self.error
        return tokens

    def take_waiter(self) -> list[Waiter]:
        """The reader to wake, if one is asleep and has something to wake up for."""
        if self.waiter is None or not (self.unread or self.finish):
            return []
        waiter, self.waiter = self.waiter, None
        return [waiter]


class TokenStream:
    """The reader's end: an async iterator of the tokens that came, at most MAX_TAKEN at a time.

    One reader at a time. After the iteration ends `finish` is set. `abort` may be called from any
    thread, in any state of the sequence, any number of times, and never blocks. A reader that is nudged
    gets (), for that nothing came.
    """

    def __init__(
        self,
        sequence: Sequence,
        arrived: threading.Condition,
        abort: Callable[[Sequence, int], None],
        taken: Callable[[Sequence], None],
    ) -> None:
        """`taken` is called under the lock, after tokens were taken of one whose reader was behind."""
        self._sequence, self._feed = sequence, sequence.feed
        self._arrived, self._abort, self._taken = arrived, abort, taken
        self._is_nudged = False

    @property
    def finish(self) -> Finish | None:
        """None until the sequence has finished; it may be set before the last tokens are read."""
        return self._feed.finish

    @property
    def usage(self) -> Usage:
        sequence = self._sequence
        return Usage(sequence.num_prompt, sequence.num_cached, sequence.num_output)

    @property
    def progress(self) -> Progress:
        return self._sequence.progress

    @property
    def admission(self) -> Admission | None:
        return self._sequence.admission

    def __aiter__(self) -> TokenStream:
        return self

    async def __anext__(self) -> tuple[Token, ...]:
        """Raises: QueueTimeout, ReplicaClosed."""
        while True:
            with self._arrived:
                tokens = self._take()
                if tokens:
                    return tokens
                if self._feed.finish is not None:
                    raise StopAsyncIteration
                if self._is_nudged:
                    self._is_nudged = False
                    return ()
                if self._feed.waiter is not None:
                    raise RuntimeError("another task is already reading this stream")
                waiter = self._feed.waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            except BaseException:  # who resolves it has taken it; who is cancelled takes it back
                with self._arrived:
                    if self._feed.waiter is waiter:
                        self._feed.waiter = None
                raise

    def nudge(self) -> None:
        """Wake the reader, if it waits, although nothing came. On its event loop."""
        with self._arrived:
            waiter, self._feed.waiter = self._feed.waiter, None
        if waiter is not None and not waiter.done():
            self._is_nudged = True
            waiter.set_result(None)

    def wait(self, timeout_s: float | None = None) -> tuple[Token, ...]:
        """The same for a plain thread: block for new tokens; () at the end.

        Raises: QueueTimeout, ReplicaClosed; TimeoutError when nothing came within timeout_s.
        """
        feed = self._feed
        with self._arrived:
            if not self._arrived.wait_for(lambda: feed.unread or feed.finish, timeout_s):
                raise TimeoutError(f"No token within {timeout_s} s.")
            return self._take()

    def _take(self) -> tuple[Token, ...]:
        tokens = self._feed.take_unread()
        if self._sequence.is_behind:
            self._taken(self._sequence)
        return tokens

    def abort(self, num_unused: int = 0) -> None:
        """Give up: the sequence leaves its slot or the queue at once, at the latest between steps.

        num_unused: tokens that were read and are of no use; they count as surplus, like the unread.
        """
        self._abort(self._sequence, num_unused)

    async def aclose(self) -> None:
        self.abort()

    def __del__(self) -> None:
        if self._feed.finish is None:
            self._abort(self._sequence, 0)


def wake(waiters: Iterable[Waiter]) -> None:
    """Resolve the readers' futures, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, its_waiters in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, its_waiters)
        except RuntimeError:
            # The loop was closed and its readers with it; their streams abort when collected.
            continue


def _resolve(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
