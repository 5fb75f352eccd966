"""The server: daphne's, with limits on its connections, writes that wait, and an end in good order.

Owns listening and the steps of a shutdown. Knows nothing about the application but that it is ASGI.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from typing import TYPE_CHECKING, Any

# First, because it installs the reactor that everything else of Twisted then finds.
from daphne.server import Server as DaphneServer
from twisted.internet import defer, reactor
from twisted.internet.endpoints import serverFromString
from twisted.logger import globalLogBeginner

from inference.http_server.deadline import Deadline
from inference.http_server.factory import ConnectionFactory
from inference.http_server.last_tasks import end_tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from inference.http_server.limits import Limits
    from inference.http_server.refusal import Translate
    from inference.http_server.request import Request

logger = logging.getLogger(__name__)

BACKLOG = 1024  # connections the kernel keeps until they are accepted
LAST_WORDS_S = 3.0  # for the answers of requests that were ended


class Server(DaphneServer):  # type: ignore[misc]  # daphne is untyped
    abort_start: bool

    def __init__(
        self,
        application: Any,
        host: str,
        port: int,
        limits: Limits,
        translate: Translate,
        *,
        shutdown_s: float = 30.0,
        end_requests: Callable[[], None] = lambda: None,
        ready_callable: Callable[[], None] | None = None,
        stopping_callable: Callable[[], None] = lambda: None,
    ) -> None:
        """`end_requests` makes running requests answer with an error; it may block, and has a thread."""
        interface = host.replace(":", r"\:")
        super().__init__(
            application,
            endpoints=[f"tcp:port={port}:interface={interface}:backlog={BACKLOG}"],
            signal_handlers=False,
            ready_callable=ready_callable,
            server_name="Pantheon",
            verbosity=0,
        )
        self.limits, self.translate = limits, translate
        self._shutdown_s, self._end_requests = shutdown_s, end_requests
        self._stopping_callable = stopping_callable
        self.connections: dict[Any, dict[str, Any]] = {}
        self._ports: list[Any] = []
        self._patience = Deadline(reactor)
        self._is_draining = False

    def run(self) -> None:
        """Serve until a signal ends it. On the main thread."""
        globalLogBeginner.beginLoggingTo(
            [lambda _: None], redirectStandardIO=False, discardBuffer=True
        )
        kept = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.start()
            if not self.abort_start:
                reactor.run(installSignalHandlers=False)
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)

    def start(self) -> None:
        """Listen, on a reactor that runs or will."""
        self.http_factory = ConnectionFactory(
            self, self.limits, self.translate, self._stop_when_drained
        )
        reactor.callLater(1, self.application_checker)
        for description in self.endpoints:
            listening = serverFromString(reactor, description).listen(self.http_factory)
            listening.addCallbacks(self.listen_success, self.listen_error)
        reactor.addSystemEventTrigger("before", "shutdown", self.kill_all_applications)
        if self.ready_callable and not self.abort_start:
            self.ready_callable()

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        self._ports.append(port)

    async def handle_reply(self, protocol: Request, message: dict[str, Any]) -> None:
        """An application's `send()`: waits as long as the client has too much left to read.

        Pieces of a stream go straight to the connection; daphne looks at each as if it were the first.
        """
        channel = getattr(protocol, "channel", None)
        if channel is None:  # the client is gone: whatever ends the application must have its turn
            await asyncio.sleep(0)
            return
        if not channel.writable.is_set():
            await channel.writable.wait()
        if not (message.get("more_body") and protocol.is_within_body):
            await super().handle_reply(protocol, message)
            return
        protocol.write(message.get("body", b""))
        if channel.has_had_its_turn():
            await asyncio.sleep(0)

    # ---- the end ------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Accept nothing more, let requests finish, end the rest, stop. Asked again: stop at once."""
        if self._is_draining:
            self.stop()
            return
        self._is_draining = True
        self._stopping_callable()
        self.http_factory.is_open = False
        for port in self._ports:
            port.stopListening()
        num_running = sum(connection.drain() for connection in tuple(self.http_factory.connections))
        if num_running:
            logger.info(
                "finishing %s (up to %g s); Ctrl-C again stops at once",
                _requests(num_running),
                self._shutdown_s,
            )
        self._patience.set(self._shutdown_s, self._run_out_of_patience)
        self._stop_when_drained()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        reactor.callFromThread(self.shut_down)

    def _stop_when_drained(self) -> None:
        if self._is_draining and not self.http_factory.connections:
            self._patience.clear()
            self.stop()

    def _run_out_of_patience(self) -> None:
        logger.warning("ending %s with an error", _requests(len(self.http_factory.connections)))
        threading.Thread(target=self._end_requests, name="end-requests", daemon=True).start()
        self._patience.set(LAST_WORDS_S, self.stop)

    def stop(self) -> None:
        if self.abort_start or not reactor.running:
            self.abort_start = True
        elif not reactor._stopped:
            reactor.stop()

    def kill_all_applications(self) -> defer.Deferred[Any]:
        """Cancel what still runs, and wait for it: applications, and whatever tasks they have made."""
        return defer.Deferred.fromFuture(asyncio.ensure_future(end_tasks()))


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
