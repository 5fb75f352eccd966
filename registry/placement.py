"""Where a model fits: a pure function of what it needs and what there is. Reserves nothing.

Knows nothing about the database. A refusal is raised as PlacementRefused, whose reason names the limit
and the fix; previews show it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, groupby

from registry.errors import PlacementRefused
from registry.sizes import counted, format_bytes

CONTEXT_STEP = 256  # Suggested context lengths are multiples of this, in tokens.


@dataclass(frozen=True)
class Demand:
    """Bytes a replica needs, by kind. Weights and KV memory divide over dies; scratch is needed on each.

    `measured(num_dies)`, where given, tells what each of so many dies holds, in the order of the layers; None
    where that is not known. It may raise PlacementRefused for a model that so many dies cannot run.
    """

    name: str
    weight_bytes: int
    kv_bytes: int
    scratch_bytes: int
    context_len: int
    kv_tokens: int  # positions in the KV memory, shared by all sequences
    measured: Callable[[int], tuple[int, ...] | None] | None = None

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes + self.scratch_bytes

    def shares(self, num_dies: int) -> tuple[int, ...]:
        """Bytes on each die, in the order of the layers: measured, else divided evenly.

        Raises: PlacementRefused.
        """
        measured = self.measured(num_dies) if self.measured is not None else None
        if measured is not None:
            return measured
        each = -(-self._divided_bytes // num_dies) + self.scratch_bytes
        return (each,) * num_dies

    def describe(self, num_dies: int = 0) -> str:
        """On so many dies together; 0: on the host. Raises: PlacementRefused, as `shares` does."""
        num_bytes = sum(self.shares(num_dies)) if num_dies else self.total_bytes
        return (
            f"{self.name} needs {format_bytes(num_bytes)} (weights"
            f" {format_bytes(self.weight_bytes)}, KV memory {format_bytes(self.kv_bytes)}:"
            f" {counted(self.kv_tokens, 'position')} for a context length of"
            f" {counted(self.context_len, 'token')}{_buffers(num_bytes - self._divided_bytes)})"
        )

    @property
    def _divided_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes


@dataclass(frozen=True)
class DieRoom:
    """One die as placement sees it. `used_bytes`: bindings and what other processes hold.

    serves_it: it holds a replica of the same served name already.
    """

    ordinal: int
    card: int
    budget_bytes: int
    used_bytes: int
    failure: str = ""
    serves_it: bool = False

    @property
    def free_bytes(self) -> int:
        return max(self.budget_bytes - self.used_bytes, 0)


@dataclass(frozen=True)
class Placement:
    """The decision: bytes by die ordinal, or host bytes when the CPU runs the model."""

    die_bytes: Mapping[int, int]
    host_bytes: int = 0


def place(
    demand: Demand,
    dies: Sequence[DieRoom],
    host_available_bytes: int,
    requested_dies: Sequence[int] = (),
) -> Placement:
    """On the dies requested, else on the best dies of a host that has any, else on the CPU.

    Raises: PlacementRefused, as the functions below do.
    """
    if requested_dies:
        return place_on_requested(demand, dies, requested_dies)
    if dies:
        return place_on_dies(demand, dies)
    return place_on_host(demand, host_available_bytes)


def place_on_host(demand: Demand, available_bytes: int) -> Placement:
    if demand.total_bytes <= available_bytes:
        return Placement({}, host_bytes=demand.total_bytes)
    fixes = [*_shorter_context(demand, available_bytes), "unload another model"]
    raise PlacementRefused(
        f"{demand.describe()}, but {format_bytes(available_bytes)} of host memory are available;"
        f" {_either(*fixes, 'choose a smaller quantization')}."
    )


def place_on_requested(
    demand: Demand, dies: Sequence[DieRoom], requested: Sequence[int]
) -> Placement:
    """Exactly these dies, layers split evenly over them in the order of their ordinals."""
    by_ordinal = {die.ordinal: die for die in dies}
    chosen = sorted(set(requested))
    for ordinal in chosen:
        die = by_ordinal.get(ordinal)
        if die is None:
            known = ", ".join(map(str, sorted(by_ordinal))) or "none"
            raise PlacementRefused(f"There is no die {ordinal} on this host. Dies: {known}.")
        if die.failure:
            raise PlacementRefused(f"Die {ordinal} has failed ({die.failure}); choose another die.")
    die_bytes = dict(zip(chosen, demand.shares(len(chosen)), strict=True))
    for ordinal, share in die_bytes.items():
        free_bytes = by_ordinal[ordinal].free_bytes
        if free_bytes < share:
            raise PlacementRefused(
                f"{demand.describe(len(chosen))}, {format_bytes(share)} on die {ordinal},"
                f" but die {ordinal} has {format_bytes(free_bytes)} free;"
                f" {_either(*_other_dies(demand, dies), 'choose a smaller quantization')}."
            )
    return Placement(die_bytes)


def place_on_dies(demand: Demand, dies: Sequence[DieRoom]) -> Placement:
    """One die if it fits, else both dies of one card, else as few whole cards as it takes.

    Replicas of one name are there to share its load, so they never share a die unasked.
    """
    sound = [die for die in dies if not die.failure]
    if not sound:
        raise PlacementRefused(
            f"{demand.describe()}, but {_none_of(len(dies))} of this host is usable;"
            " see the list of dies for the reasons."
        )
    usable = [die for die in sound if not die.serves_it]
    if not usable:
        raise PlacementRefused(
            f"{demand.describe()}, but every usable die of this host holds a replica of the same name"
            " already; unload one of them or name the dies to use."
        )
    for chosen in _candidates(demand, usable):
        ordinals = [die.ordinal for die in sorted(chosen, key=_ordinal)]
        return Placement(dict(zip(ordinals, demand.shares(len(chosen)), strict=True)))
    best = max(usable, key=lambda die: die.free_bytes)
    raise PlacementRefused(
        f"{demand.describe(1)}, but the freest die, {best.ordinal}, has"
        f" {format_bytes(best.free_bytes)} free and no set of cards has room for its share;"
        f" {_either('unload another model', 'lower the context length', 'choose a smaller quantization')}."
    )


def _buffers(num_bytes: int) -> str:
    """What is neither weights nor KV memory; nothing where fewer bytes are made of the weights."""
    return f"; buffers {format_bytes(num_bytes)}" if num_bytes > 0 else ""


def _none_of(num_dies: int) -> str:
    return f"none of the {num_dies} dies" if num_dies > 1 else "not even the only die"


def _ordinal(die: DieRoom) -> int:
    return die.ordinal


def _candidates(demand: Demand, usable: Sequence[DieRoom]) -> Iterator[list[DieRoom]]:
    """Die sets that fit, best first within each size, smaller sizes first. Raises: PlacementRefused."""
    by_card = groupby(sorted(usable, key=lambda die: (die.card, die.ordinal)), lambda die: die.card)
    cards = {card: list(of_card) for card, of_card in by_card}
    busy = {card for card, of_card in cards.items() if any(die.used_bytes for die in of_card)}

    (one,) = demand.shares(1)
    fitting = [die for die in usable if die.free_bytes >= one]
    # Singles gather on cards in use, so that whole cards stay free for models that need one.
    yield from ([d] for d in sorted(fitting, key=lambda d: _single_rank(d, cards[d.card])))

    two = _shares(demand, 2)
    pairs = [card for card in cards.values() if len(card) == 2 and _fits(card, two)]
    # A card nobody uses first, then the one with most room in all.
    yield from sorted(pairs, key=lambda c: (c[0].card in busy, -sum(d.free_bytes for d in c)))

    whole = [cards[card] for card in sorted(cards) if len(cards[card]) == 2]
    for num_cards in range(2, len(whole) + 1):
        shares = _shares(demand, 2 * num_cards)
        for some in combinations(whole, num_cards):
            # As they take the layers: the ordinals of a card need not be neighbours.
            chosen = sorted(chain.from_iterable(some), key=_ordinal)
            if _fits(chosen, shares):
                yield chosen


def _shares(demand: Demand, num_dies: int) -> tuple[int, ...]:
    """Empty where the model cannot be split over so many."""
    try:
        return demand.shares(num_dies)
    except PlacementRefused:
        return ()


def _fits(dies: Sequence[DieRoom], shares: Sequence[int]) -> bool:
    """Whether the dies, in order, have room for a share each."""
    return len(shares) == len(dies) and all(
        die.free_bytes >= share for die, share in zip(dies, shares, strict=True)
    )


def _single_rank(die: DieRoom, of_card: Sequence[DieRoom]) -> tuple[bool, int, int]:
    mate_in_use = any(mate.used_bytes for mate in of_card if mate is not die)
    return (not mate_in_use, -die.free_bytes, die.ordinal)


def _other_dies(demand: Demand, dies: Sequence[DieRoom]) -> list[str]:
    try:
        other = place_on_dies(demand, dies)
    except PlacementRefused:
        return ["unload another model"]
    return [f"try dies {', '.join(map(str, other.die_bytes))}"]


def _shorter_context(demand: Demand, available_bytes: int) -> list[str]:
    """The longest context that would fit, where one of any use does."""
    if not demand.kv_bytes or not demand.context_len:
        return []
    room = available_bytes - demand.weight_bytes - demand.scratch_bytes
    fitting = room * demand.context_len // demand.kv_bytes // CONTEXT_STEP * CONTEXT_STEP
    if not CONTEXT_STEP <= fitting < demand.context_len:
        return []
    return [f"lower the context length to {fitting} tokens"]


def _either(*fixes: str) -> str:
    *firsts, last = fixes
    return f"{', '.join(firsts)} or {last}" if firsts else last
