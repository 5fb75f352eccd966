"""What a die may give, and what other processes hold of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accel.budget import RESERVE_BYTES, Budget, budget_of

GIB = 1 << 30
TOTAL = 12 * GIB


def test_an_idle_die_gives_all_but_the_reserve():
    """S54."""
    assert budget_of(TOTAL, TOTAL, 0, GIB) == Budget(11 * GIB, 0)
    assert RESERVE_BYTES == GIB


def test_others_count_where_they_exceed_the_reserve():
    """S55."""
    assert budget_of(TOTAL, TOTAL - GIB // 2, 0, GIB).external_bytes == 0
    assert budget_of(TOTAL, TOTAL - 3 * GIB, 0, GIB).external_bytes == 2 * GIB


def test_own_models_are_no_external_use():
    assert budget_of(TOTAL, TOTAL - 6 * GIB, 5 * GIB, GIB).external_bytes == 0
    assert budget_of(TOTAL, TOTAL - 8 * GIB, 5 * GIB, GIB).external_bytes == 2 * GIB


def test_a_die_smaller_than_the_reserve_gives_nothing():
    assert budget_of(GIB // 2, GIB // 2, 0, GIB) == Budget(0, 0)


@given(st.integers(0, TOTAL), st.integers(0, TOTAL), st.integers(0, TOTAL), st.integers(0, TOTAL))
def test_external_use_lies_between_nothing_and_the_budget(total, free, own, reserve):
    budget = budget_of(total, free, own, reserve)
    assert 0 <= budget.external_bytes <= budget.budget_bytes <= total
