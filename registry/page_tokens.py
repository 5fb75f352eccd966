"""Tokens by which a page of the admin site calls the inference API in its user's name.

Owns making and reading them: signed, short-lived, stored nowhere. Knows nothing about headers, and
nothing about who may see such a page.
"""

from __future__ import annotations

from datetime import timedelta

from django.core import signing

PREFIX = "page-"
MAX_AGE = timedelta(
    hours=1
)  # how long a login that ended may still chat; the page renews its token
_SALT = "registry.page_tokens"


def page_token(user_name: str) -> str:
    return PREFIX + signing.dumps(user_name, salt=_SALT)


def page_token_user(token: str) -> str | None:
    """Whose page made this token; None when it is none, was tampered with, or is too old."""
    if not token.startswith(PREFIX):
        return None
    try:
        user_name = signing.loads(token.removeprefix(PREFIX), salt=_SALT, max_age=MAX_AGE)
    except signing.BadSignature:
        return None
    return str(user_name)
