"""The first admin account, so that a fresh install can be logged into.

Owns nothing after that: accounts are managed in the admin site.
"""

from __future__ import annotations

import secrets

from django.contrib.auth import get_user_model

FIRST_ADMIN = "admin"


def make_first_admin() -> str | None:
    """Create `admin` with a random password and return it; None when there is a superuser already."""
    users = get_user_model()
    if users.objects.filter(is_superuser=True).exists():
        return None
    password = secrets.token_hex(10)  # pasted from a terminal: no characters that need care
    users.objects.create_superuser(FIRST_ADMIN, password=password)
    return password
