"""Several sources read as one: order, limits, idle marks, errors and closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from inference.api.interleave import interleave


async def count_to(n: int, log: list[str] | None = None, name: str = "") -> AsyncIterator[int]:
    log = [] if log is None else log
    log.append(f"begin {name}")
    try:
        for i in range(n):
            await asyncio.sleep(0)
            yield i
    finally:
        log.append(f"end {name}")


async def never() -> AsyncIterator[int]:
    await asyncio.Event().wait()
    yield 0


async def fail_after(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i
    raise ValueError("broken")


async def test_every_item_comes_once_and_in_its_source_s_order() -> None:
    sources = [count_to(n) for n in (3, 0, 5)]
    items = [item async for item in interleave(sources, at_once=3, idle_s=5)]
    for index, n in enumerate((3, 0, 5)):
        assert [value for i, value in items if i == index] == list(range(n))


async def test_no_more_than_so_many_at_once() -> None:
    """Later sources begin when earlier ones end."""
    log: list[str] = []
    sources = [count_to(2, log, str(n)) for n in range(5)]
    async for _ in interleave(sources, at_once=2, idle_s=5):
        assert sum(e.startswith("begin") for e in log) - sum(e.startswith("end") for e in log) <= 2
    assert len(log) == 10


async def test_idle_times_are_marked() -> None:
    stream = interleave([never()], at_once=1, idle_s=0.01)
    assert await anext(stream) is None
    assert await anext(stream) is None
    await stream.aclose()


async def test_an_error_of_one_ends_all() -> None:
    log: list[str] = []
    stream = interleave([count_to(1000, log, "a"), fail_after(2)], at_once=2, idle_s=5)
    with pytest.raises(ValueError, match="broken"):
        async for _ in stream:
            pass
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_ends_what_is_being_read() -> None:
    stream = interleave([never(), never(), count_to(1)], at_once=3, idle_s=5)
    assert await anext(stream) == (2, 0)
    await stream.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_the_reader_ends_what_is_being_read() -> None:
    async def read() -> None:
        async for _ in interleave([never(), never()], at_once=2, idle_s=5):
            pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) == 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
