"""Recording the dies that were found and what was measured on them. Knows nothing about drivers."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from registry.errors import InvalidValue
from registry.models import Card, Die


@transaction.atomic
def die_record(
    *,
    ordinal: int,
    card_ordinal: int,
    card_name: str,
    total_bytes: int,
    budget_bytes: int,
    external_bytes: int,
    failure: str = "",
) -> Die:
    """The row of that die, made or brought up to date. A failed die keeps its row, with the reason.

    Raises: InvalidValue.
    """
    if not 0 <= external_bytes <= budget_bytes <= total_bytes:
        raise InvalidValue("budget_bytes", "must lie between external_bytes and total_bytes")
    card, _made = Card.objects.update_or_create(
        ordinal=card_ordinal, defaults={"name": card_name[:128]}
    )
    die, _made = Die.objects.update_or_create(
        ordinal=ordinal,
        defaults={
            "card": card,
            "total_bytes": total_bytes,
            "budget_bytes": budget_bytes,
            "external_bytes": external_bytes,
            "failure": failure[:1024],
            "measured_at": timezone.now(),
        },
    )
    return die
