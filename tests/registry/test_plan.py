"""Every place a model could go, and what stands against it."""

from __future__ import annotations

from dataclasses import replace

from registry.plan import options, unasked
from tests.registry.conftest import GIB
from tests.registry.test_placement import demand, k80


def test_a_load_that_names_no_dies_goes_where_placement_says():
    chosen = unasked(demand(16), k80(0, 0, 0, 0), 0)
    assert (chosen.where, chosen.die_bytes) == ("die 0, die 1", (8 * GIB, 8 * GIB))
    on_host = unasked(demand(2), [], 4 * GIB)
    assert (on_host.where, on_host.host_bytes) == ("the CPU", 2 * GIB)


def test_a_load_that_fits_nowhere_says_why():
    chosen = unasked(demand(60), k80(0, 0), 0)
    assert chosen.where == "nowhere"
    assert "no set of cards has room" in chosen.refusal


def test_every_place_is_asked():
    """Each die, each card, all cards, and the CPU."""
    found = list(options(demand(12), k80(0, 0, 9, 0, failed=(1,)), 64 * GIB))
    assert [option.where for option in found] == [
        "die 0",
        "die 1",
        "die 2",
        "die 3",
        "card 0",
        "card 1",
        "all 2 cards",
        "the CPU",
    ]
    fits = {option.where for option in found if not option.refusal}
    assert fits == {"the CPU"}
    refusals = {option.where: option.refusal for option in found}
    assert "die 0 has 11.0 GiB free" in refusals["die 0"]
    assert "Die 1 has failed (lost)" in refusals["card 0"]
    assert "die 2 has 2.0 GiB free" in refusals["card 1"]


def test_shares_are_told_die_by_die():
    by_place = {option.where: option for option in options(demand(12), k80(0, 0), 0)}
    assert by_place["card 0"].die_bytes == (6 * GIB, 6 * GIB)
    assert "host memory are available" in by_place["the CPU"].refusal


def test_a_card_of_which_one_die_is_visible_is_no_pair():
    alone = [replace(die, card=die.ordinal) for die in k80(0, 0)]
    places = [option.where for option in options(demand(1), alone, GIB)]
    assert places == ["die 0", "die 1", "the CPU"]
