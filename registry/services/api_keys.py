"""API keys: making, checking, revoking. Knows nothing about headers or what a scope opens.

A key is `pn-<8 hex digits>-<256 random bits>`. The part before the last dash is public and finds the row; of
the whole only the SHA-256 is kept.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from datetime import datetime

from django.db import DatabaseError, transaction
from django.utils import timezone

from registry.errors import ApiKeyNameInUse, ApiKeyNotFound, InvalidValue
from registry.key_policy import ApiKeyInfo, KeyPolicy, token_digest
from registry.models import SCOPES, ApiKey
from registry.services.audit import audited
from registry.timed_cache import TimedCache

logger = logging.getLogger(__name__)

POLICY_TTL_S = 1.0  # how long a change made by another process may go unnoticed
_policy: TimedCache[KeyPolicy] = TimedCache(POLICY_TTL_S, max_len=1)


def api_key_validate(*, name: str, scopes: Iterable[str], expires_at: datetime | None) -> None:
    """Whether such a key may be made. Raises: InvalidValue, ApiKeyNameInUse."""
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise InvalidValue("name", "must be 1 to 64 printable characters")
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidValue("scopes", f"must be one or more of {', '.join(SCOPES)}")
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidValue("expires_at", "must lie in the future")
    if ApiKey.objects.filter(name=name, revoked_at__isnull=True).exists():
        raise ApiKeyNameInUse(name)


def api_key_create(
    *, name: str, scopes: Iterable[str], expires_at: datetime | None = None, actor: str
) -> tuple[ApiKey, str]:
    """A new key and its secret, which exists nowhere else. Raises: InvalidValue, ApiKeyNameInUse."""
    wanted = sorted(set(scopes))
    with audited("api_key.create", name, actor) as detail:
        detail.update(scopes=wanted, expires_at=expires_at.isoformat() if expires_at else None)
        api_key_validate(name=name, scopes=wanted, expires_at=expires_at)
        prefix = f"pn-{secrets.token_hex(4)}"
        token = f"{prefix}-{secrets.token_urlsafe(32)}"
        key = ApiKey.objects.create(
            name=name,
            prefix=prefix,
            secret_sha256=token_digest(token),
            scopes=" ".join(wanted),
            expires_at=expires_at,
        )
        detail["prefix"] = prefix
        transaction.on_commit(_policy.clear)
    return key, token


def api_key_check(token: str) -> ApiKeyInfo | None:
    """Who holds this key; None when it is unknown, revoked or expired."""
    return key_policy().holder(token)


def key_policy() -> KeyPolicy:
    """All keys, as they were at most POLICY_TTL_S ago; changes of this process show at once."""
    return _policy.get("", _read_policy_if_possible)


def key_policy_in_memory() -> KeyPolicy | None:
    """The same without a query; None when it must be read again."""
    return _policy.peek("")


def _read_policy_if_possible() -> KeyPolicy:
    """While the database cannot be read, keys that were known go on working."""
    try:
        return _read_policy()
    except DatabaseError:
        known = _policy.peek("", though_old=True)
        if known is None:
            raise
        logger.warning("the API keys cannot be read; those known before are still accepted")
        return known


def _read_policy() -> KeyPolicy:
    keys = ApiKey.objects.filter(revoked_at__isnull=True)
    by_prefix = {
        key.prefix: (
            key.secret_sha256,
            ApiKeyInfo(key.pk, key.name, key.prefix, frozenset(key.scopes.split()), key.expires_at),
        )
        for key in keys
    }
    return KeyPolicy(is_open=not by_prefix and not ApiKey.objects.exists(), by_prefix=by_prefix)


def api_key_revoke(*, wanted: str, actor: str) -> ApiKey:
    """End a key, found by its prefix or name. Revoking twice is revoking once. Raises: ApiKeyNotFound."""
    with audited("api_key.revoke", wanted, actor) as detail:
        key = (
            ApiKey.objects.filter(prefix=wanted).first()
            or ApiKey.objects.filter(name=wanted).order_by("-pk").first()
        )
        if key is None:
            raise ApiKeyNotFound(wanted[:64])
        detail["prefix"] = key.prefix
        if key.revoked_at is None:
            key.revoked_at = timezone.now()
            key.save(update_fields=["revoked_at"])
        transaction.on_commit(_policy.clear)
    return key
