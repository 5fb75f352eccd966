"""`manage.py replicas`: what is wanted and what it is, as a plain table. Changes nothing."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django_rich.management import RichCommand
from rich.table import Table
from rich.text import Text

from registry.models import Replica
from registry.selectors import replicas_overview
from registry.serving_process import server_is_running
from registry.states import State, Wanted


class Command(RichCommand):
    help = "List the replicas that are loaded, on their way, or failed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="Unloaded ones too.")

    def handle(self, *args: Any, **options: Any) -> None:
        is_running = server_is_running()
        replicas = (
            list(Replica.objects.select_related("artifact"))
            if options["all"]
            else replicas_overview()
        )
        if not is_running:
            self.console.print(
                "No server is running; what is wanted loads at the next start.", soft_wrap=True
            )
        elif not replicas:
            self.console.print("No model is loaded.")
        if not replicas:
            return
        table = Table("Id", "Name", "Model file", "State", "Wanted", "Remark")
        for replica in replicas:
            remark = replica.failure_reason or (
                f"{replica.phase} {replica.progress:.0%}" if replica.phase and is_running else ""
            )
            table.add_row(
                replica.pk,
                Text(replica.served_name),
                Text(replica.artifact.file_name),
                replica.state if is_running else state_at_rest(replica),
                replica.wanted,
                Text(remark),
            )
        self.console.print(table)


def state_at_rest(replica: Replica) -> str:
    """What the row's state means while no process holds anything: a server that was killed left it behind."""
    if replica.state == State.UNLOADED or replica.wanted == Wanted.UNLOADED:
        return State.UNLOADED.value
    return "at next start"
