"""The end of an event loop that Twisted's reactor runs, and the asyncio tasks that are still there then.

Knows nothing about what the tasks do, and imports no Twisted: a process without it has no such end.
`asyncio.run` ends them before it returns; Twisted's reactor does not, and an application that was
cancelled may leave tasks of its own. A task that is only collected while the interpreter goes down
runs its last lines in what is left of asyncio, which Python 3.11 answers with a segmentation fault.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

TIMEOUT_S = 3.0


async def end_tasks() -> None:
    """Cancel every other task of this loop, and wait for them, but not for ever."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=TIMEOUT_S)


def before_reactor_stops(call: Callable[[], None]) -> None:
    """`call` must not block: it runs on the event loop."""
    reactor = _reactor()
    if reactor is not None:
        reactor.addSystemEventTrigger("before", "shutdown", call)


def end_tasks_of_reactor() -> None:
    """What `end_tasks` does, from a thread without a loop, once the reactor has stopped."""
    loop = getattr(_reactor(), "_asyncioEventloop", None)
    if loop is None or loop.is_closed():
        return
    if loop.is_running():  # in another thread: runserver's reloader has the main one
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end_tasks(), loop).result(2 * TIMEOUT_S)
    else:
        loop.run_until_complete(end_tasks())


def _reactor() -> Any:
    """The one that a server of this process has installed, if any has."""
    return sys.modules.get("twisted.internet.reactor")
