"""The wake-up call: something about what is wanted has changed. Knows nothing about who listens.

Listeners in other processes hear nothing, so whoever acts on wanted state also looks now and then.
"""

from __future__ import annotations

from django.db import transaction
from django.dispatch import Signal

wanted_changed = Signal()


def announce_wanted_changed() -> None:
    """Send `wanted_changed` once the running transaction is committed; at once when there is none."""
    transaction.on_commit(lambda: wanted_changed.send(sender=None))
