"""Several asynchronous iterators read as one. Knows nothing about what they yield."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

T = TypeVar("T")


async def interleave(
    sources: Sequence[AsyncIterator[T]], *, at_once: int, idle_s: float
) -> AsyncGenerator[tuple[int, T] | None, None]:
    """Items with the index of their source, as they come; None whenever nothing came for idle_s.

    At most `at_once` sources are begun and unfinished at a time. An error of one ends all of them;
    so does closing this generator.
    """
    waiting = deque(enumerate(sources))
    reading: dict[asyncio.Task[T], int] = {}

    def read(index: int) -> None:
        reading[asyncio.create_task(_next(sources[index]))] = index

    try:
        while waiting or reading:
            while waiting and len(reading) < at_once:
                read(waiting.popleft()[0])
            done, _ = await asyncio.wait(
                reading, timeout=idle_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                yield None
            for task in sorted(done, key=reading.__getitem__):
                index = reading.pop(task)
                try:
                    item = task.result()
                except StopAsyncIteration:
                    continue
                read(index)
                yield index, item
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source)
