"""Several sources read as one: order, limits, idle marks, errors and closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from inference.api.interleave import interleave


async def count_to(
    n: int, log: list[str] | None = None, name: str = ""
) -> AsyncGenerator[int, None]:
    log = [] if log is None else log
    log.append(f"begin {name}")
    try:
        for i in range(n):
            await asyncio.sleep(0)
            yield i
    finally:
        log.append(f"end {name}")


async def idle(times: int) -> AsyncGenerator[int | None, None]:
    for _ in range(times):
        await asyncio.sleep(0)
        yield None


async def never() -> AsyncGenerator[int, None]:
    await asyncio.Event().wait()
    yield 0


async def fail_after(n: int) -> AsyncGenerator[int, None]:
    for i in range(n):
        yield i
    raise ValueError("broken")


async def test_every_item_comes_once_and_in_its_source_s_order() -> None:
    sources = [count_to(n) for n in (3, 0, 5)]
    items = [item async for item in interleave(sources, at_once=3)]
    for index, n in enumerate((3, 0, 5)):
        assert [value for i, value in items if i == index] == list(range(n))


async def test_no_more_than_so_many_at_once() -> None:
    """Later sources begin when earlier ones end."""
    log: list[str] = []
    sources = [count_to(2, log, str(n)) for n in range(5)]
    async for _ in interleave(sources, at_once=2):
        assert sum(e.startswith("begin") for e in log) - sum(e.startswith("end") for e in log) <= 2
    assert len(log) == 10


@pytest.mark.parametrize("num_sources", [1, 2, 5])
async def test_an_idle_time_is_marked_once_for_all_sources(num_sources: int) -> None:
    """By the first that is unfinished: the others are idle at the same times."""
    sources = [idle(3) for _ in range(num_sources - 1)]
    marks = [item async for item in interleave([idle(4), *sources], at_once=5)]
    assert marks == [None] * 4


async def test_an_idle_time_is_marked_by_those_who_are_left() -> None:
    items = [item async for item in interleave([count_to(1), idle(3)], at_once=2)]
    assert items.count(None) >= 1
    assert items.count((0, 0)) == 1


async def test_an_error_of_one_ends_all() -> None:
    log: list[str] = []
    stream = interleave([count_to(1000, log, "a"), fail_after(2)], at_once=2)
    with pytest.raises(ValueError, match="broken"):
        async for _ in stream:
            pass
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_ends_the_only_source() -> None:
    """At once, not when it is collected."""
    log: list[str] = []
    source = count_to(3, log)
    stream = interleave([source], at_once=1)
    assert await anext(stream) == (0, 0)
    await stream.aclose()
    assert log == ["begin ", "end "]


async def test_closing_ends_what_is_being_read() -> None:
    stream = interleave([never(), never(), count_to(1)], at_once=3)
    assert await anext(stream) == (2, 0)
    await stream.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_the_reader_ends_what_is_being_read() -> None:
    async def read() -> None:
        async for _ in interleave([never(), never()], at_once=2):
            pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) == 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
