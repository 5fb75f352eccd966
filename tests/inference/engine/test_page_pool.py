from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.errors import BrokenInvariant
from inference.engine.page_pool import PagePool


def named(*names):
    return [name.encode() for name in names]


def published(pool, names):
    """Pages taken and named, still held."""
    pages = pool.take(len(names))
    for page, name in zip(pages, names, strict=True):
        pool.publish(page, name)
    return pages


def test_taking_more_than_is_available_is_refused_and_changes_nothing():
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
    with pytest.raises(BrokenInvariant):
        pool.give_back([*pool.take(1)] * 2)
    assert (pool.num_free, pool.num_used) == (2, 1)


def test_a_page_that_nobody_holds_cannot_be_named():
    pool = PagePool(1)
    pool.give_back(pool.take(1))
    with pytest.raises(BrokenInvariant):
        pool.publish(0, b"a")


def test_named_pages_stay_after_their_holder_and_others_do_not():
    pool = PagePool(4)
    pages = published(pool, named("a", "ab"))
    pool.give_back([*pages, *pool.take(1)])
    assert (pool.num_free, pool.num_cached, pool.num_used) == (2, 2, 0)
    assert pool.find(named("a", "ab", "abc")) == pages


def test_a_prefix_is_found_from_its_start_only():
    pool = PagePool(4)
    pages = published(pool, named("a", "ab"))
    assert pool.find(named("a", "ax")) == pages[:1]
    assert pool.find(named("x", "ab")) == []


def test_a_shared_page_is_free_for_others_when_its_last_holder_is_gone():
    pool = PagePool(2)
    pages = published(pool, named("a"))
    pool.share(pages)
    pool.give_back(pages)
    assert (pool.num_used, pool.num_cached) == (1, 0)
    pool.give_back(pages)
    assert (pool.num_used, pool.num_cached) == (0, 1)


def test_cached_pages_are_taken_when_no_free_one_is_left_the_longest_unused_first():
    pool = PagePool(4)
    first, second = published(pool, named("a")), published(pool, named("b"))
    pool.give_back(first)
    pool.give_back(second)
    pool.share(pool.find(named("a")))
    pool.give_back(first)  # used again: now the younger
    assert set(pool.take(2)).isdisjoint(first + second)
    assert pool.num_evicted == 0
    assert pool.take(1) == second
    assert (pool.find(named("b")), pool.find(named("a"))) == ([], first)
    assert (pool.num_evicted, pool.num_cached) == (1, 1)


def test_the_end_of_a_prefix_is_evicted_before_its_beginning():
    """A page is of no use without those before it."""
    pool = PagePool(3)
    pages = published(pool, named("a", "ab", "abc"))
    pool.give_back(pages)
    assert [pool.take(1)[0] for _ in range(3)] == pages[::-1]


def test_a_page_in_use_is_never_evicted():
    pool = PagePool(2)
    pages = published(pool, named("a", "ab"))
    with pytest.raises(BrokenInvariant):
        pool.take(1)
    assert pool.find(named("a", "ab")) == pages


def test_pages_about_to_be_shared_do_not_count_as_available():
    pool = PagePool(3)
    pages = published(pool, named("a", "ab"))
    pool.give_back(pages)
    assert (pool.num_available(), pool.num_available(besides=pages)) == (3, 1)
    pool.share(pages)
    assert (pool.num_available(), pool.num_available(besides=pages)) == (1, 1)


def test_two_that_computed_the_same_keep_one_copy():
    pool = PagePool(2)
    first, twin = published(pool, named("a")), published(pool, named("a"))
    assert pool.find(named("a")) == first
    pool.give_back(twin)
    assert (pool.num_free, pool.num_cached) == (1, 0)
    pool.give_back(first)
    assert (pool.num_free, pool.num_cached) == (1, 1)


class Books:
    """What a pool must do, written down plainly: contents, holders and the order of last use."""

    def __init__(self, num_pages):
        self.pool = PagePool(num_pages)
        self.holders = Counter()
        self.content = {}  # of named pages
        self.idle = []  # longest unused first

    def begin(self, prefixes, num_pages):
        """A sequence of a tenant, `prefixes` the names of its full pages; its pages, or None."""
        found = self.pool.find(prefixes)
        assert [self.content[page] for page in found] == prefixes[: len(found)]
        num_new = max(num_pages - len(found), 0)
        if num_new > self.pool.num_available(besides=found):
            return None
        self.pool.share(found)
        self.idle = [page for page in self.idle if page not in found]
        num_evicted = max(num_new - self.pool.num_free, 0)
        evicted, self.idle = self.idle[:num_evicted], self.idle[num_evicted:]
        new = self.pool.take(num_new)
        assert evicted == new[len(new) - num_evicted :], (
            "the longest unused, and only if none is free"
        )
        for page in evicted:
            del self.content[page]
        assert not any(self.holders[page] or page in self.content for page in new)
        self.holders.update(found + new)
        return found + new

    def publish(self, pages, prefixes):
        for page, prefix in zip(pages, prefixes, strict=False):
            self.pool.publish(page, prefix)
            if prefix not in self.content.values():
                self.content.setdefault(page, prefix)

    def end(self, pages):
        self.pool.give_back(pages)
        self.holders.subtract(pages)
        self.idle += [
            page for page in reversed(pages) if not self.holders[page] and page in self.content
        ]

    def check(self):
        pool = self.pool
        assert pool.num_used == sum(count > 0 for count in self.holders.values())
        assert pool.num_cached == len(self.idle)
        assert pool.num_free + pool.num_cached + pool.num_used == pool.num_pages
        for page, prefix in self.content.items():
            assert pool.find([prefix]) == [page]


@settings(max_examples=150, deadline=None)
@given(
    num_pages=st.integers(1, 12),
    deeds=st.lists(
        st.tuples(
            st.sampled_from(["begin", "begin", "publish", "end"]),
            st.sampled_from(["t", "u"]),
            st.text("ab", max_size=5),
            st.integers(0, 20),
        ),
        max_size=60,
    ),
)
def test_the_books_are_right_after_any_deeds(num_pages, deeds):
    """Every page is free, cached or used; nobody finds what is not its own tenant's and prefix's."""
    books, live = Books(num_pages), []
    for deed, tenant, text, number in deeds:
        if deed == "begin":
            prefixes = [f"{tenant}:{text[: i + 1]}".encode() for i in range(len(text))]
            pages = books.begin(prefixes, len(text) + number % 2)
            if pages is not None:
                live.append((pages, prefixes))
        elif live:
            pages, prefixes = live[number % len(live)]
            if deed == "publish":
                books.publish(pages, prefixes)
            else:
                live.pop(number % len(live))
                books.end(pages)
        books.check()
