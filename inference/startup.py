"""Starting the engine in a process that serves: runtime and supervisor, from Django's settings.

Owns the process's one supervisor. Called by the ASGI application; commands that serve nothing never
import this.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence

from django.conf import settings

from inference import control
from inference.dies import DieWatch, die_settings, serve_with
from inference.engine_settings import engine_settings
from inference.http_server.last_tasks import before_reactor_stops, end_tasks_of_reactor
from inference.runtime import Runtime
from inference.runtime_access import set_runtime
from inference.supervisor import AlreadyRunning, LoadProgress, Supervisor

__all__ = ["AlreadyRunning", "begin_stop", "start_engine"]

_supervisor: Supervisor | None = None


def start_engine(
    watcher: Callable[[LoadProgress], None] | None = None, load_first: Sequence[str] = ()
) -> Supervisor:
    """Start the supervisor once; later calls return the same one.

    `watcher` sees every load's progress; names in `load_first` are loaded before others, in their order.
    Raises: AlreadyRunning; AccelError, when dies are to be emulated and cannot.
    """
    global _supervisor
    if _supervisor is None:
        values = settings.PANTHEON
        runtime = Runtime(strict_model=values["PANTHEON_STRICT_MODEL"])
        dies = DieWatch(die_settings(values))
        supervisor = Supervisor(
            runtime,
            engine_settings(values),
            settings.DATA_DIR,
            values["PANTHEON_DRAIN_S"],
            load_first=load_first,
            dies=dies,
        )
        if watcher is not None:
            supervisor.watchers.append(watcher)
        supervisor.start()
        set_runtime(runtime)
        serve_with(dies)
        before_reactor_stops(begin_stop)
        atexit.register(_stop, supervisor)
        _supervisor = supervisor
    return _supervisor


def begin_stop() -> None:
    """Give up what the interpreter's end would wait for, or pull the ground from under: loads."""
    if _supervisor is not None:
        _supervisor.load_no_more()
    control.stop_waiting()


def _stop(supervisor: Supervisor) -> None:
    """However the process serves: requests end before the models do that they run on."""
    begin_stop()
    end_tasks_of_reactor()
    supervisor.stop()
