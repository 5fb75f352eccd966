"""The log's line of each refusal, and one line for the rest while they come in floods.

Owns how many lines are enough. Knows nothing about why something is refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

logger = logging.getLogger(__name__)

# Of one kind: whoever sends nonsense all day must not fill a disk, nor hide refusals of another kind.
LINES_PER_PERIOD, PERIOD_S = 10, 60.0


class RefusalLog:
    """A period of a kind begins with its first refusal; what its lines left out is counted at its end."""

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._counts: dict[str, int] = {}  # by kind, in the period that runs

    def record(self, kind: str, line: str) -> None:
        """`kind` is one of a few words of the program's own; nothing that a client can make up."""
        if kind not in self._counts:
            self._counts[kind] = 0
            self._reactor.callLater(PERIOD_S, self._end_period, kind)
        self._counts[kind] += 1
        if self._counts[kind] <= LINES_PER_PERIOD:
            logger.warning("%s", line)

    def _end_period(self, kind: str) -> None:
        num_untold = self._counts.pop(kind) - LINES_PER_PERIOD
        if num_untold > 0:
            logger.warning("%d more refused within %g s (%s)", num_untold, PERIOD_S, kind)
