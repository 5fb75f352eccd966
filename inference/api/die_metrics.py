"""Which metric shows which number of a die: one table, read at each scrape. Hosts without dies have none.

Owns the names. The numbers are those of the last look, at most a few seconds old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from inference.dies import SeenDie
    from inference.runtime import ServedReplica

DIE_LABELS = ("die", "card", "uuid")


@dataclass(frozen=True)
class DieRow:
    """`value` of a die and how many replicas are on it."""

    name: str
    help: str
    value: Callable[[SeenDie, int], float]


DIE_GAUGES = (
    DieRow("memory_bytes", "Memory of the die.", lambda die, _: die.measured.total_bytes),
    DieRow("used_bytes", "Held by models of this server.", lambda die, _: die.used_bytes),
    DieRow(
        "external_bytes",
        "Held by other processes beyond the reserve.",
        lambda die, _: die.measured.external_bytes,
    ),
    DieRow("free_bytes", "For another model, less the reserve.", lambda die, _: die.free_bytes),
    DieRow("replicas", "Replicas that run on it.", lambda _, num_replicas: num_replicas),
    DieRow(
        "quarantined", "1: it has failed, and takes no models.",
        lambda die, _: bool(die.measured.failure),
    ),
)  # fmt: skip


def die_metrics(dies: Sequence[SeenDie], replicas: Sequence[ServedReplica]) -> Iterator[Metric]:
    if not dies:
        return
    for row in DIE_GAUGES:
        metric = GaugeMetricFamily(f"pantheon_die_{row.name}", row.help, labels=DIE_LABELS)
        for die in dies:
            ordinal = die.measured.ordinal
            labels = (str(ordinal), str(die.measured.card_ordinal), _name(die))
            num_replicas = sum(ordinal in each.dies for each in replicas)
            metric.add_metric(labels, row.value(die, num_replicas))
        yield metric


def _name(die: SeenDie) -> str:
    """The one that it keeps over restarts."""
    return die.measured.uuid or die.measured.pci_address
