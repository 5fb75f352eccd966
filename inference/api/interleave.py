"""Several asynchronous generators read as one. Knows nothing about what they yield."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

T = TypeVar("T")


async def interleave(
    sources: Sequence[AsyncGenerator[T | None, None]], *, at_once: int
) -> AsyncGenerator[tuple[int, T] | None, None]:
    """Items with the index of their source, as they come.

    A source's None, which says that it had nothing for a while, is passed on as long as no earlier
    source is unfinished: one of them speaks for all. At most `at_once` sources are begun and unfinished
    at a time. An error of one ends all of them; so does closing this generator.
    """
    if len(sources) == 1:
        # Without a task an item, which costs as much as making the item.
        async with aclosing(sources[0]) as source:
            async for item in source:
                yield None if item is None else (0, item)
        return
    waiting = deque(enumerate(sources))
    reading: dict[asyncio.Task[T | None], int] = {}

    def read(index: int) -> None:
        reading[asyncio.create_task(_next(sources[index]))] = index

    try:
        while waiting or reading:
            while waiting and len(reading) < at_once:
                read(waiting.popleft()[0])
            done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=reading.__getitem__):
                index = reading.pop(task)
                try:
                    item = task.result()
                except StopAsyncIteration:
                    continue
                read(index)
                if item is not None:
                    yield index, item
                elif index == min(reading.values()):
                    yield None
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)
