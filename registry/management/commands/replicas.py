"""`manage.py replicas`: what is wanted and what it is, as a plain table. Changes nothing."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django_rich.management import RichCommand
from rich.table import Table
from rich.text import Text

from registry.models import Replica
from registry.selectors import replicas_overview


class Command(RichCommand):
    help = "List the replicas that are loaded, on their way, or failed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="Unloaded ones too.")

    def handle(self, *args: Any, **options: Any) -> None:
        replicas = (
            list(Replica.objects.select_related("artifact"))
            if options["all"]
            else replicas_overview()
        )
        if not replicas:
            self.console.print("No model is loaded.")
            return
        table = Table("Id", "Name", "Model file", "State", "Wanted", "Remark")
        for replica in replicas:
            remark = replica.failure_reason or (
                f"{replica.phase} {replica.progress:.0%}" if replica.phase else ""
            )
            table.add_row(
                replica.pk,
                Text(replica.served_name),
                Text(replica.artifact.name),
                replica.state,
                replica.wanted,
                Text(remark),
            )
        self.console.print(table)
