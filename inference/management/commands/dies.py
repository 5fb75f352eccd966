"""`manage.py dies`: the dies of this host, what each may give, and who has how much of it."""

from __future__ import annotations

from typing import Any

from django_rich.management import RichCommand
from rich.table import Table
from rich.text import Text

from inference.management.hardware import current_dies
from registry.selectors import NO_DIES, DieUse
from registry.sizes import format_bytes


class Command(RichCommand):
    help = "List the dies of this host with their memory, models and failures."

    def handle(self, *args: Any, **options: Any) -> None:
        dies = current_dies()
        if not dies:
            self.console.print(NO_DIES, soft_wrap=True)
            return
        table = Table("Die", "Card", "PCI address", "Budget", "Others", "Models", "Free", "Remark")
        table.columns[2].no_wrap = True  # half an address is none
        table.title = ", ".join(sorted({die.name for die in dies}))
        for die in dies:
            table.add_row(
                str(die.ordinal),
                str(die.card),
                die.pci_address,
                format_bytes(die.budget_bytes),
                format_bytes(die.external_bytes),
                Text("\n".join(_models(die)) or "-"),
                format_bytes(die.free_bytes),
                Text(die.failure and f"failed: {die.failure}"),
            )
        self.console.print(table)


def _models(die: DieUse) -> list[str]:
    return [f"{b.served_name} {format_bytes(b.bound_bytes)}" for b in die.bindings]
