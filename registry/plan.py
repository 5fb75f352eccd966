"""What fits where, and why not: every place a model could go, asked one by one. Reserves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from registry.errors import PlacementRefused
from registry.placement import (
    Demand,
    DieRoom,
    Placement,
    place,
    place_on_host,
    place_on_requested,
)


@dataclass(frozen=True)
class Option:
    """One place. `refusal` empty: the model fits, with so many bytes on each die, or on the host."""

    where: str
    die_bytes: tuple[int, ...] = ()
    host_bytes: int = 0
    refusal: str = ""


def unasked(demand: Demand, dies: Sequence[DieRoom], host_bytes: int) -> Option:
    """Where a load that names no dies would go."""
    try:
        placement = place(demand, dies, host_bytes)
    except PlacementRefused as refused:
        return Option("nowhere", refusal=refused.reason)
    return _option(_named(placement), placement)


def options(demand: Demand, dies: Sequence[DieRoom], host_bytes: int) -> Iterator[Option]:
    """Each die alone, each card, all cards together, and the host."""
    for die in dies:
        yield _asked(f"die {die.ordinal}", partial(_on, demand, dies, [die]))
    by_card = groupby(sorted(dies, key=lambda die: (die.card, die.ordinal)), lambda die: die.card)
    cards = {card: list(of_card) for card, of_card in by_card}
    whole = {card: of_card for card, of_card in cards.items() if len(of_card) > 1}
    for card, of_card in whole.items():
        yield _asked(f"card {card}", partial(_on, demand, dies, of_card))
    if len(whole) > 1:
        every = [die for of_card in whole.values() for die in of_card]
        yield _asked(f"all {len(whole)} cards", partial(_on, demand, dies, every))
    yield _asked("the CPU", partial(place_on_host, demand, host_bytes))


def _on(demand: Demand, dies: Sequence[DieRoom], chosen: Sequence[DieRoom]) -> Placement:
    return place_on_requested(demand, dies, [die.ordinal for die in chosen])


def _asked(where: str, choose: Callable[[], Placement]) -> Option:
    try:
        return _option(where, choose())
    except PlacementRefused as refused:
        return Option(where, refusal=refused.reason)


def _option(where: str, placement: Placement) -> Option:
    return Option(where, tuple(placement.die_bytes.values()), placement.host_bytes)


def _named(placement: Placement) -> str:
    return ", ".join(f"die {ordinal}" for ordinal in placement.die_bytes) or "the CPU"
