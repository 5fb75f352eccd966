"""Threads for control requests, which may wait a minute for a load: nobody else's threads are used up.

Owns the pool; knows nothing about what runs on it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="control")


async def on_control_thread(act: Callable[[], T]) -> T:
    """Run on a thread that keeps no database connection afterwards."""

    def run() -> T:
        try:
            return act()
        finally:
            connections.close_all()

    return await asyncio.get_running_loop().run_in_executor(_threads, copy_context().run, run)
