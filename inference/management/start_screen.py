"""What the terminal shows while a server starts: loads in progress, then where to go.

Owns the words of a start. Fed by the supervisor's threads; knows nothing about how loading works.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from inference.management.command_line import manage_py
from inference.management.first_login import FIRST_ADMIN
from inference.management.load_display import SETTLED, load_display
from inference.supervisor import LoadProgress
from registry.states import State

EXAMPLE_TOKENS = 300


class StartScreen:
    """Loads until every expected model is ready or failed, then a few lines to copy."""

    def __init__(self, url: str, password: str | None, *, needs_key: bool = False) -> None:
        self._url, self._password, self._needs_key = url, password, needs_key
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._loads = load_display(self._console)
        self._lock = threading.Lock()
        self._outcomes: dict[str, LoadProgress] = {}
        self._expected: tuple[str, ...] | None = None
        self._listening = self._done = False

    def expect(self, names: Iterable[str]) -> None:
        """Names in the order of their interest; the first one that is ready is the example."""
        with self._lock:
            self._expected = tuple(dict.fromkeys(names))
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
            self._loads.show(progress)
            if progress.state in SETTLED:
                self._outcomes[progress.served_name] = progress
                self._finish_when_settled()

    def stopping(self) -> None:
        """The server is told to end. Nothing is said of a start after this."""
        with self._lock:
            if self._done:
                return
            self._done = True
            self._loads.close()
            self._tell_login()
            self._console.print("stopping; what is not loaded yet will be at the next start")

    def tell_login(self) -> None:
        """Where the start ends before the rest of it is said: no later one knows the password."""
        with self._lock:
            self._tell_login()

    def _tell_login(self) -> None:
        if self._password is not None:
            password, self._password = self._password, None
            self._console.print(
                f"            log in as {FIRST_ADMIN} with {escape(password)} (shown this once)"
            )

    def _finish_when_settled(self) -> None:
        if self._done or not self._listening or self._expected is None:
            return
        if not set(self._expected) <= set(self._outcomes):
            return
        self._done = True
        self._loads.close()
        self._print_where_to_go(self._expected)

    def _print_where_to_go(self, names: tuple[str, ...]) -> None:
        say = self._console.print
        ready = [
            outcome for name in names if (outcome := self._outcomes[name]).state == State.READY
        ]
        for name, outcome in self._outcomes.items():
            if outcome.state == State.FAILED:
                say(f"[red]{escape(name)} could not be loaded:[/] {escape(outcome.reason)}")
        say(f"\nAdmin site  {self._url}/admin/")
        self._tell_login()
        say(f"API         {self._url}/v1")
        if ready:
            say("\nTry it:\n")
            say(escape(self._curl_line(ready[0])))
            if self._needs_key:
                key_line = manage_py("apikey create NAME")
                say(escape(f"\nKEY is an API key; one is made with: {key_line}"))
        else:
            say("No model is loaded; load one in the admin site.")
        say("\nCtrl-C stops the server.")

    def _curl_line(self, example: LoadProgress) -> str:
        """Bounded, and the same every time: a small model that samples may wander for ever."""
        body = {
            "model": example.served_name,
            "stream": True,
            "temperature": 0,
            "max_tokens": min(EXAMPLE_TOKENS, example.context_len // 2),
            "messages": [{"role": "user", "content": "Why is the sky blue?"}],
        }
        key = '-H "Authorization: Bearer $KEY" ' if self._needs_key else ""
        return (
            f"curl -N {self._url}/v1/chat/completions {key}-H 'Content-Type: application/json'"
            f" -d '{json.dumps(body, separators=(',', ':'))}'"
        )
