"""Which replica served a session last, for as many sessions as are worth remembering.

Knows no replica but its id; whether it can take a request is the runtime's to see.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

MAX_SESSIONS = 10_000


@dataclass(frozen=True)
class SessionKey:
    """Sessions are a tenant's own, and each served name has its own pages of them."""

    tenant: str
    session_id: str
    served_name: str


class SessionAffinity:
    """The sessions used last, at most `max_sessions`. Not thread-safe; the runtime's lock guards it."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._max_sessions = max_sessions
        self._replica_ids: OrderedDict[SessionKey, str] = OrderedDict()

    def find(self, key: SessionKey) -> str | None:
        return self._replica_ids.get(key)

    def remember(self, key: SessionKey, replica_id: str) -> None:
        self._replica_ids[key] = replica_id
        self._replica_ids.move_to_end(key)
        if len(self._replica_ids) > self._max_sessions:
            self._replica_ids.popitem(last=False)
