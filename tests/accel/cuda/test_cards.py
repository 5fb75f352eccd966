"""Which dies share a card."""

from __future__ import annotations

import pytest

from accel.cuda.cards import Seat, cards_of

K80 = "Tesla K80"


def at(*addresses, board=None, name=K80):
    return [Seat(name, address, board) for address in addresses]


def test_the_driver_s_boards_decide():
    """S51, and never the ordinals alone: here the dies of two cards are listed in turn."""
    seats = [
        Seat(K80, "0000:05:00.0", 1),
        Seat(K80, "0000:09:00.0", 2),
        Seat(K80, "0000:06:00.0", 1),
        Seat(K80, "0000:0a:00.0", 2),
    ]
    assert cards_of(seats) == [0, 1, 0, 1]


def test_neighbours_on_the_bus_are_mates_where_the_driver_names_no_board():
    assert cards_of(at("0000:06:00.0", "0000:05:00.0", "0000:84:00.0", "0000:85:00.0")) == [
        0,
        0,
        1,
        1,
    ]


def test_a_die_whose_mate_is_not_visible_is_alone():
    """CUDA_VISIBLE_DEVICES may show half a card: the two dies left over are not mates."""
    assert cards_of(at("0000:05:00.0", "0000:09:00.0", "0000:0a:00.0")) == [0, 1, 1]


def test_a_row_of_three_makes_one_pair():
    assert cards_of(at("0000:05:00.0", "0000:06:00.0", "0000:07:00.0")) == [0, 0, 1]


def test_dies_of_other_domains_are_no_neighbours():
    assert cards_of(at("0000:05:00.0", "0001:06:00.0")) == [0, 1]


@pytest.mark.parametrize("name", ["NVIDIA H200", "Tesla K40m"])
def test_boards_with_one_die_are_never_paired(name):
    assert cards_of(at("0000:05:00.0", "0000:06:00.0", name=name)) == [0, 1]


def test_a_die_that_told_nothing_is_a_card_of_its_own():
    assert cards_of([*at("0000:05:00.0", "0000:06:00.0"), Seat("unknown", "", None)]) == [0, 0, 1]
