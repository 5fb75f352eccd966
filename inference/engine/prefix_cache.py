"""Which pages are known by name, and which of those nobody holds, in order of last use.

Integers and opaque names only: it knows neither tokens nor tenants, nor how many hold a page.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from inference.engine.errors import BrokenInvariant

if TYPE_CHECKING:
    from collections.abc import Iterable


class PrefixCache:
    """A named page never changes, so any number of sequences may read it at once."""

    def __init__(self) -> None:
        self._pages: dict[bytes, int] = {}
        self._names: dict[int, bytes] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # named and held by nobody, oldest first

    @property
    def num_idle(self) -> int:
        return len(self._idle)

    def is_idle(self, page: int) -> bool:
        return page in self._idle

    def find(self, names: Iterable[bytes]) -> list[int]:
        """The pages of the longest known run from the start of `names`."""
        found = []
        for name in names:
            page = self._pages.get(name)
            if page is None:
                break
            found.append(page)
        return found

    def add(self, page: int, name: bytes) -> None:
        """Name a page that somebody holds. The first page of a name keeps it; a twin stays unnamed."""
        if page not in self._names and name not in self._pages:
            self._pages[name], self._names[page] = page, name

    def hold(self, page: int) -> None:
        """Somebody holds it: it cannot be evicted."""
        self._idle.pop(page, None)

    def release(self, page: int) -> bool:
        """Nobody holds it any more; whether it has a name and is kept, as the last one used."""
        if page not in self._names:
            return False
        self._idle[page] = None
        return True

    def evict(self) -> int:
        """Forget the name of the page that was used longest ago, among those that nobody holds.

        Raises: BrokenInvariant.
        """
        if not self._idle:
            raise BrokenInvariant("a cached page was wanted and there is none")
        page, _ = self._idle.popitem(last=False)
        del self._pages[self._names.pop(page)]
        return page
