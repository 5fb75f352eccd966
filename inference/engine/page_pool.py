"""KV pages as numbers: which are free, which are lent. Knows neither their contents nor who holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.engine.errors import BrokenInvariant

if TYPE_CHECKING:
    from collections.abc import Sequence


class PagePool:
    """Pages 0..num_pages-1. Not thread-safe; the worker's lock guards it."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        # Taken from the end, so that low numbers are lent first and recent ones again: warm memory.
        self._free = list(range(num_pages - 1, -1, -1))
        self._lent: set[int] = set()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return len(self._lent)

    def take(self, count: int) -> list[int]:
        """Lend `count` pages; the caller has seen that so many are free.

        Raises: BrokenInvariant.
        """
        if count > len(self._free):
            raise BrokenInvariant(f"{count} pages taken of {len(self._free)} free ones")
        pages = [self._free.pop() for _ in range(count)]
        self._lent.update(pages)
        return pages

    def give_back(self, pages: Sequence[int]) -> None:
        """Free pages lent by `take`.

        Raises: BrokenInvariant.
        """
        if not self._lent.issuperset(pages):
            raise BrokenInvariant("a page was given back that was not lent")
        self._lent.difference_update(pages)
        self._free.extend(reversed(pages))
