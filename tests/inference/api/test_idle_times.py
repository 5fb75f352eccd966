"""Idle times are marked when they have gone by, again and again, and not while there is news."""

from __future__ import annotations

import asyncio

from inference.api.idle_times import IdleTimes


async def test_every_idle_time_is_marked() -> None:
    marks: list[None] = []
    with IdleTimes(0.01, lambda: marks.append(None)):
        await asyncio.sleep(0.2)
    assert 3 <= len(marks) <= 20


async def test_news_put_it_off() -> None:
    loop = asyncio.get_running_loop()
    marked_s: list[float] = []
    with IdleTimes(0.3, lambda: marked_s.append(loop.time())) as idle_times:
        for _ in range(10):
            await asyncio.sleep(0.05)
            idle_times.news()
        last_s = loop.time()
        await asyncio.sleep(0.5)
    assert marked_s
    assert marked_s[0] - last_s > 0.25


async def test_nothing_is_marked_after_its_end() -> None:
    marks: list[None] = []
    with IdleTimes(0.02, lambda: marks.append(None)):
        pass
    await asyncio.sleep(0.1)
    assert marks == []
