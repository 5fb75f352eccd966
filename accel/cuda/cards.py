"""Which dies share a board, from what the driver and the PCI bus say of each.

Pure; knows nothing about drivers. Ordinals say nothing: a host may list the dies of one card far apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

TWO_DIE_BOARDS = ("Tesla K80", "Tesla K10", "GRID K2")


@dataclass(frozen=True)
class Seat:
    """Where a die sits. `board` is the driver's number of a multi-die board, None where it knows of none.

    pci_address: "0000:05:00.0", empty where unknown.
    """

    name: str
    pci_address: str
    board: int | None


def cards_of(seats: Sequence[Seat]) -> list[int]:
    """The card of each seat, numbered from 0 in the order of their first dies.

    Dies are mates when the driver names the same board, else when their model has two dies a board and
    they follow each other on the bus: a board's switch gives its dies neighbouring bus numbers.
    """
    keys: list[Hashable] = [
        ("alone", index) if seat.board is None else ("board", seat.board)
        for index, seat in enumerate(seats)
    ]
    unpaired = [
        index
        for index, seat in enumerate(seats)
        if seat.board is None and seat.pci_address and seat.name.startswith(TWO_DIE_BOARDS)
    ]
    unpaired.sort(key=lambda index: _bus(seats[index]))
    while len(unpaired) > 1:
        first, second = unpaired[:2]
        if _bus(seats[second]) == (_bus(seats[first])[0], _bus(seats[first])[1] + 1):
            keys[second] = keys[first]
            del unpaired[1]
        del unpaired[0]
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _bus(seat: Seat) -> tuple[int, int]:
    """(domain, bus number) of an address such as 0000:0a:00.0."""
    domain, bus, _device = seat.pci_address.split(":")
    return int(domain, 16), int(bus, 16)
