"""KV pages as numbers: which are free, which are held by how many. Knows neither contents nor holders.

A page is free, used, or cached: named and held by nobody, kept until memory is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.engine.errors import BrokenInvariant
from inference.engine.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class PagePool:
    """Pages 0..num_pages-1. Not thread-safe; the worker's lock guards it."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self.num_evicted = 0
        # Taken from the end, so that low numbers are lent first and recent ones again: warm memory.
        self._free = list(range(num_pages - 1, -1, -1))
        self._num_holders = [0] * num_pages
        self._cache = PrefixCache()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_cached(self) -> int:
        return self._cache.num_idle

    @property
    def num_used(self) -> int:
        return self.num_pages - self.num_free - self.num_cached

    def num_available(self, besides: Iterable[int] = ()) -> int:
        """How many can be taken, once the pages `besides` are shared."""
        return self.num_free + self.num_cached - sum(map(self._cache.is_idle, besides))

    def take(self, count: int) -> list[int]:
        """Lend `count` pages nobody holds, unnamed; cached ones only when none is free.

        Raises: BrokenInvariant.
        """
        if count > self.num_available():
            raise BrokenInvariant(f"{count} pages taken of {self.num_available()} available ones")
        pages = [self._free.pop() if self._free else self._evict() for _ in range(count)]
        for page in pages:
            self._num_holders[page] = 1
        return pages

    def find(self, names: Iterable[bytes]) -> list[int]:
        """Pages of the longest known prefix. They may be evicted unless they are shared at once."""
        return self._cache.find(names)

    def share(self, pages: Iterable[int]) -> None:
        """One more holder for each of the pages found."""
        for page in pages:
            self._cache.hold(page)
            self._num_holders[page] += 1

    def publish(self, page: int, name: bytes) -> None:
        """A held page is full and computed, and will never be written again."""
        if self._num_holders[page] == 0:
            raise BrokenInvariant("a page that nobody holds was published")
        self._cache.add(page, name)

    def give_back(self, pages: Sequence[int]) -> None:
        """One holder less for each. Prefix order: of pages cached together the last is evicted first.

        Raises: BrokenInvariant.
        """
        if len(set(pages)) < len(pages) or not all(self._num_holders[page] for page in pages):
            raise BrokenInvariant("a page was given back that was not lent")
        for page in reversed(pages):
            self._num_holders[page] -= 1
            if self._num_holders[page] == 0 and not self._cache.release(page):
                self._free.append(page)

    def _evict(self) -> int:
        self.num_evicted += 1
        return self._cache.evict()
