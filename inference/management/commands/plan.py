"""`manage.py plan MODEL`: where a model would go, what else would hold it, and what would not, and why."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError
from django_rich.management import RichCommand
from rich.table import Table
from rich.text import Text

from accel.host import available_bytes
from inference.management.hardware import current_dies
from registry import services
from registry.errors import PlacementRefused, RegistryError
from registry.placement import Demand, DieRoom
from registry.plan import Option, options, unasked
from registry.selectors import rooms_of
from registry.sizes import format_bytes


class Command(RichCommand):
    help = "Show where a model fits, and why not elsewhere. Loads nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("model", help="a pulled model's name, id or digest")
        parser.add_argument(
            "--context",
            type=int,
            default=0,
            help="longest sequence in tokens (default: the server's)",
        )

    def handle(self, *args: Any, **options_given: Any) -> None:
        try:
            artifact = services.artifact_find(options_given["model"])
        except RegistryError as error:
            raise CommandError(str(error)) from error
        dies, host_bytes = rooms_of(current_dies()), available_bytes()
        demand = services.artifact_demand(artifact, options_given["context"])
        chosen = unasked(demand, dies, host_bytes)
        self.console.print(Text(f"{_need(demand, dies)}."), soft_wrap=True)
        self.console.print(
            Text(
                "It fits nowhere."
                if chosen.refusal
                else f"A load that names no dies goes to {chosen.where}."
            ),
            soft_wrap=True,
        )
        table = Table("Place", "Fits", "Bytes, or what stands against it")
        for option in options(demand, dies, host_bytes):
            table.add_row(option.where, "no" if option.refusal else "yes", Text(_remark(option)))
        self.console.print(table)


def _need(demand: Demand, dies: Sequence[DieRoom]) -> str:
    try:
        return demand.describe(1 if dies else 0)
    except PlacementRefused:  # dies cannot run it; the table says why
        return demand.describe()


def _remark(option: Option) -> str:
    if option.refusal:
        return option.refusal
    each = option.die_bytes or (option.host_bytes,)
    return " + ".join(format_bytes(num_bytes) for num_bytes in each)
