"""`manage.py serve`: load models and answer on HTTP, in one process.

Owns the order of a start: refuse what cannot work, pull, listen, load, say where to go.
"""

from __future__ import annotations

import ipaddress
import signal
import socket
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.module_loading import import_string

from accel.errors import AccelError
from inference.api.metrics import translate_counted
from inference.http_server.limits import Limits, connections_possible
from inference.management.command_line import manage_py
from inference.management.first_login import make_first_admin
from inference.management.hardware import current_dies
from inference.management.start_screen import StartScreen
from inference.model.errors import ModelError
from inference.pulling import pull_and_register, shown_progress
from inference.runtime_access import get_runtime
from inference.sources import SourceError
from inference.supervisor import AlreadyRunning
from registry import selectors, services
from registry.errors import RegistryError
from registry.models import Artifact
from registry.serving_process import server_is_running


class Command(BaseCommand):
    help = "Serve models: those named here and those the database already wants."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--model",
            action="append",
            default=[],
            metavar="SOURCE",
            help="a source as `pull` takes it, or a pulled model's name, id or digest; may be repeated",
        )
        parser.add_argument(
            "--name",
            action="append",
            default=[],
            help="the API's name of the --model at the same place; default: the file's own name",
        )
        parser.add_argument(
            "--dies",
            action="append",
            default=[],
            help="dies of the --model at the same place, as 0 or 0,1; hosts without dies use the CPU",
        )
        parser.add_argument(
            "--context",
            type=_whole(1, 1 << 20),
            metavar="TOKENS",
            help="longest sequence, for this run (default: PANTHEON_CONTEXT_LEN)",
        )
        parser.add_argument(
            "--threads",
            type=_whole(1, 256),
            metavar="N",
            help="compute threads of a replica, for this run (default: PANTHEON_CPU_THREADS)",
        )
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
        )
        parser.add_argument(
            "--port",
            type=_whole(1, 65_535),
            metavar="N",
            default=8000,
            help="TCP port to listen on (default: %(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        host, port = options["host"], options["port"]
        self._refuse_open_door(host)
        self._refuse_old_database()
        self._refuse_second_server()
        self._refuse_taken_port(host, port)
        if len(options["name"]) > len(options["model"]):
            raise CommandError("There are more --name than --model options.")
        if len(options["dies"]) > len(options["model"]):
            raise CommandError("There are more --dies than --model options.")
        dies = [_die_list(text) for text in options["dies"]]
        if any(dies) and not current_dies():
            raise CommandError("This host has no dies; leave --dies out to load onto the CPU.")
        # Before anything asks for them: what a load needs depends on these too.
        for option, setting in (
            ("context", "PANTHEON_CONTEXT_LEN"),
            ("threads", "PANTHEON_CPU_THREADS"),
        ):
            if options.get(option):
                settings.PANTHEON[setting] = options[option]
        artifacts = [self._artifact(text) for text in options["model"]]
        names = [
            options["name"][i] if i < len(options["name"]) else artifact.default_served_name
            for i, artifact in enumerate(artifacts)
        ]
        dies += [()] * (len(artifacts) - len(dies))
        try:
            for artifact, name, on in zip(artifacts, names, dies, strict=True):
                if not selectors.is_wanted(artifact, name, on):
                    services.replica_request(
                        artifact=artifact, served_name=name, dies=on, actor="serve"
                    )
        except RegistryError as error:
            raise CommandError(str(error)) from error
        needs_key = (
            settings.PANTHEON["PANTHEON_REQUIRE_API_KEY"] or not services.key_policy().is_open
        )
        # Last: whoever meets a refusal above has seen no password, and the next start makes none.
        screen = StartScreen(_url(host, port), make_first_admin(), needs_key=needs_key)
        self._serve(host, port, names, screen)

    def _artifact(self, text: str) -> Artifact:
        try:
            if ":" in text or "/" in text:
                with shown_progress(f"pulling {text}") as progress:
                    return pull_and_register(text, settings.MODELS_DIR, progress)
            return services.artifact_find(text)
        except (RegistryError, SourceError, ModelError, OSError) as error:
            raise CommandError(str(error)) from error

    def _serve(self, host: str, port: int, names: Sequence[str], screen: StartScreen) -> None:
        # Installs a reactor: not before it is wanted.
        from inference.http_server.server import Server
        from inference.startup import begin_stop, start_engine

        try:
            supervisor = start_engine(watcher=screen.show, load_first=names)
        except (AlreadyRunning, AccelError) as error:
            screen.tell_login()
            raise CommandError(str(error)) from error
        screen.expect([*names, *(each.served_name for each in selectors.replicas_wanted())])

        def stopping() -> None:
            screen.stopping()
            begin_stop()

        server = Server(
            import_string(settings.ASGI_APPLICATION),
            host,
            port,
            _limits(),
            translate_counted,
            shutdown_s=settings.PANTHEON["PANTHEON_SHUTDOWN_S"],
            end_requests=_end_requests,
            ready_callable=screen.listening,
            stopping_callable=stopping,
        )
        # The server has handlers of its own. What comes after it takes seconds, and is not cut short.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        try:
            server.run()
        finally:
            screen.stopping()
            supervisor.stop()

    # ---- what cannot work is refused before anything is loaded --------------------------------------

    def _refuse_open_door(self, host: str) -> None:
        """A server that others can reach must ask them for a key."""
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = host == "localhost"
        if not loopback and not selectors.any_usable_api_key():
            raise CommandError(
                f"Listening on {host} would open the API to the network without a key. Make one first:"
                f" {manage_py('apikey create NAME')}"
            )

    def _refuse_old_database(self) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            raise CommandError(f"The database is not up to date; run: {manage_py('migrate')}")

    def _refuse_second_server(self) -> None:
        """Before a wish is written: the one that runs would fulfil it."""
        if server_is_running():
            raise CommandError(str(AlreadyRunning(settings.DATA_DIR / "engine.lock")))

    def _refuse_taken_port(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise CommandError(
                    f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port with"
                    " --port N (with make: make serve PORT=N)."
                ) from error


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise ArgumentTypeError(f"must be a whole number between {low} and {high}")
        return int(text)

    return parse


def _die_list(text: str) -> tuple[int, ...]:
    """`0,1` -> (0, 1); empty for a model whose dies are left open. Raises: CommandError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise CommandError(
            f"--dies is {text!r}; it must be die numbers separated by commas, as 0,1."
        )
    return tuple(int(part) for part in parts)


def _url(host: str, port: int) -> str:
    """Where this host reaches the server."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"http://{host}:{port}"
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


def _limits() -> Limits:
    return Limits(
        max_body_bytes=settings.PANTHEON["PANTHEON_MAX_BODY_BYTES"],
        max_connections=connections_possible(settings.PANTHEON["PANTHEON_MAX_CONNECTIONS"]),
    )


def _end_requests() -> None:
    """Every request still running ends in an error that says why."""
    for replica in get_runtime().replicas():
        replica.worker.end("The server is shutting down.")
