"""What the terminal shows while a server starts: loads in progress, then where to go.

Owns the words of a start. Fed by the supervisor's threads; knows nothing about how loading works.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from inference.management.first_login import FIRST_ADMIN
from inference.supervisor import LoadProgress


class StartScreen:
    """Progress bars until every expected model is ready or failed, then a few lines to copy."""

    def __init__(self, url: str, password: str | None) -> None:
        self._url, self._password = url, password
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bars = Progress(
            TextColumn("{task.fields[name]}: {task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}
        self._outcomes: dict[str, LoadProgress] = {}
        self._expected: frozenset[str] | None = None
        self._listening = self._done = False

    def expect(self, names: Iterable[str]) -> None:
        with self._lock:
            self._expected = frozenset(names)
            self._finish_when_settled()

    def listening(self) -> None:
        with self._lock:
            self._listening = True
            self._finish_when_settled()

    def show(self, progress: LoadProgress) -> None:
        """Called from the supervisor's threads."""
        with self._lock:
            if self._done:
                return
            name = progress.served_name
            if name not in self._tasks:
                self._bars.start()
                self._tasks[name] = self._bars.add_task("", total=1.0, name=escape(name))
            self._bars.update(
                self._tasks[name], description=progress.phase, completed=progress.share
            )
            if progress.state in ("ready", "failed"):
                self._outcomes[name] = progress
                self._finish_when_settled()

    def _finish_when_settled(self) -> None:
        if self._done or not self._listening or self._expected is None:
            return
        if not self._expected <= set(self._outcomes):
            return
        self._done = True
        self._bars.stop()
        self._print_where_to_go()

    def _print_where_to_go(self) -> None:
        say = self._console.print
        ready = [name for name, outcome in self._outcomes.items() if outcome.state == "ready"]
        for name, outcome in self._outcomes.items():
            if outcome.state == "failed":
                say(f"[red]{escape(name)} could not be loaded:[/] {escape(outcome.reason)}")
        say(f"\nAdmin site  {self._url}/admin/")
        if self._password is not None:
            say(
                f"            log in as {FIRST_ADMIN} with {escape(self._password)} (shown this once)"
            )
        say(f"API         {self._url}/v1")
        if ready:
            body = (
                f'{{"model":"{ready[0]}","stream":true,'
                '"messages":[{"role":"user","content":"Why is the sky blue?"}]}'
            )
            say("\nTry it:\n")
            say(
                escape(
                    f"curl -N {self._url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'"
                )
            )
        else:
            say("No model is loaded; load one in the admin site.")
        say("\nCtrl-C stops the server.")
