"""Dies that hang: how long their work may take, which of several holds it up, and who has hung so far.

Owns the patience and this process's list of hung dies, which nothing shortens: only the driver can end what
runs there, and it does when the process ends. Opens and frees nothing.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from accel.errors import DieHung

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from accel.cuda.die import Die

# A K80 die takes 12 ms for a row of a prompt with 8B weights (docs/kernels.md). Larger models, long contexts
# and other replicas of the die make that some times as much, so nobody is called hung who is only slow.
PATIENCE_S = 60.0
PATIENCE_S_PER_ROW = 1 / 8
REST_S = 1.0  # for a sound die to say that it is done, when all its work has had its time

_hung: dict[int, float] = {}  # seconds waited, by ordinal
_last_s: float | None = None  # on the monotonic clock: from then on nothing is waited for


class Mark(NamedTuple):
    """`event` is passed once `die` has done what it was given so far, among it num_rows of a step."""

    die: Die
    event: Any
    num_rows: int = 0


def patience_s(marks: Iterable[Mark]) -> float:
    """How long to wait for work that ends with these."""
    return PATIENCE_S + PATIENCE_S_PER_ROW * sum(mark.num_rows for mark in marks)


@contextmanager
def hurried(longest_s: float) -> Iterator[None]:
    """For the end of the process, at which the driver takes all back anyhow: no wait within the block
    lasts longer, those that have begun included. What is not done then counts as hung."""
    global _last_s
    _last_s = time.monotonic() + longest_s
    try:
        yield
    finally:
        _last_s = None


def time_is_up() -> bool:
    return _last_s is not None and time.monotonic() > _last_s


def who_hangs(marks: Iterable[Mark]) -> Die | None:
    """The die of the first mark not passed; None: all are. marks: in the order in which they were recorded.

    Dies wait for each other only by what was recorded before. So whatever the first one has to wait for
    has come, and it is its own work that does not end. Raises: DieFailed, of one that rather fails.
    """
    for mark in marks:
        with mark.die.current():
            if not mark.event.query():
                return mark.die
    return None


def remember(ordinal: int, waited_s: float) -> DieHung:
    """From now on the die is a hung one. Returns what to raise."""
    return DieHung(ordinal, _hung.setdefault(ordinal, waited_s))


def is_hung(ordinal: int) -> bool:
    return ordinal in _hung


def check(ordinal: int) -> None:
    """To be called before a context is opened, which would wait for ever. Raises: DieHung."""
    if is_hung(ordinal):
        raise DieHung(ordinal, _hung[ordinal])
