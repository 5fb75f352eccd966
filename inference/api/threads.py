"""Threads for parsing and encoding: a long prompt must not hold up the event loop.

Owns a small pool of its own, so that requests never wait behind whatever else uses asyncio's default
threads.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="prompt")


async def off_loop(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
