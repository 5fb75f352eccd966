from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.errors import BrokenInvariant
from inference.engine.page_pool import PagePool


@given(
    num_pages=st.integers(0, 40),
    operations=st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=60),
)
def test_free_and_used_pages_add_up_after_any_operations(num_pages, operations):
    """free + used = total, and no page is ever lent twice."""
    pool, lent = PagePool(num_pages), []
    for takes, amount in operations:
        if takes and amount <= pool.num_free:
            lent.append(pool.take(amount))
        elif not takes and lent:
            pool.give_back(lent.pop(amount % len(lent)))
        held = [page for pages in lent for page in pages]
        assert len(held) == len(set(held)) == pool.num_used
        assert all(0 <= page < num_pages for page in held)
        assert pool.num_free + pool.num_used == num_pages


def test_taking_more_than_is_free_is_refused_and_changes_nothing():
    pool = PagePool(3)
    pool.take(2)
    with pytest.raises(BrokenInvariant):
        pool.take(2)
    assert (pool.num_free, pool.num_used) == (1, 2)


def test_a_page_cannot_be_given_back_twice():
    pool = PagePool(3)
    pages = pool.take(2)
    pool.give_back(pages)
    with pytest.raises(BrokenInvariant):
        pool.give_back(pages)
    assert pool.num_free == 3
