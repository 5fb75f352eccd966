"""The table of die gauges: one number each, the labels of a die, and every name in the operators' page."""

from __future__ import annotations

from pathlib import Path

from inference.api.die_metrics import DIE_GAUGES, die_metrics
from inference.dies import SeenDie
from registry.services import MeasuredDie

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
DIES = (
    SeenDie(MeasuredDie(2, 1, "K80", 100, 90, 5, "", "GPU-a", "0000:05:00.0"), 20),
    SeenDie(MeasuredDie(3, 1, "K80", 100, 90, 0, "ECC error", "", "0000:06:00.0"), 7),
)


def test_each_shows_its_number_of_each_die() -> None:
    shown = {
        metric.name.removeprefix("pantheon_die_"): [each.value for each in metric.samples]
        for metric in die_metrics(DIES, ())
    }
    assert shown == {
        "memory_bytes": [100, 100],
        "used_bytes": [20, 7],
        "external_bytes": [5, 0],
        "free_bytes": [65, 0],
        "replicas": [0, 0],
        "quarantined": [0, 1],
    }


def test_a_die_is_named_by_what_it_keeps() -> None:
    """Its UUID; where the driver tells none, its address."""
    metric = next(iter(die_metrics(DIES, ())))
    assert [each.labels for each in metric.samples] == [
        {"die": "2", "card": "1", "uuid": "GPU-a"},
        {"die": "3", "card": "1", "uuid": "0000:06:00.0"},
    ]


def test_every_one_is_documented() -> None:
    page = PAGE.read_text()
    assert not [row.name for row in DIE_GAUGES if f"`pantheon_die_{row.name}`" not in page]
