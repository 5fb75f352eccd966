"""All API keys at one moment, as a value: who a token belongs to, and whether the door is open.

Owns the check of a token. Knows nothing about the database, headers or what a scope opens.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

PREFIX_LEN = len("pn-") + 8
MAX_TOKEN_LEN = 128


@dataclass(frozen=True)
class ApiKeyInfo:
    """What a valid key says about its holder. `key_id` is the tenant's identity."""

    key_id: int
    name: str
    prefix: str
    scopes: frozenset[str]
    expires_at: datetime | None


@dataclass(frozen=True)
class KeyPolicy:
    """`by_prefix` holds the digest and the holder of every key that is not revoked.

    is_open: no key was ever made. A key that was revoked or outlived its date still closes the door:
    it must not open again when the last key ends.
    """

    is_open: bool
    by_prefix: Mapping[str, tuple[str, ApiKeyInfo]]

    def holder(self, token: str) -> ApiKeyInfo | None:
        """Who holds this key; None when it is unknown, revoked or expired."""
        if not 0 < len(token) <= MAX_TOKEN_LEN or not token.isascii():
            return None
        digest, info = self.by_prefix.get(token[:PREFIX_LEN], ("", None))
        if info is None or not secrets.compare_digest(digest, token_digest(token)):
            return None
        if info.expires_at is not None and info.expires_at <= timezone.now():
            return None
        return info


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
