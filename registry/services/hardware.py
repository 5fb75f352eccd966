"""Recording the dies that were found and what was measured on them. Knows nothing about drivers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from registry.errors import InvalidValue
from registry.models import Card, Die

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MeasuredDie:
    """One die as just found. `external_bytes` of the budget are held by other processes."""

    ordinal: int
    card_ordinal: int
    card_name: str
    total_bytes: int
    budget_bytes: int
    external_bytes: int
    failure: str = ""
    uuid: str = ""
    pci_address: str = ""
    emulated: bool = False


@transaction.atomic
def die_record(die: MeasuredDie) -> Die:
    """The row of that die, made or brought up to date. A failed die keeps its row, with the reason.

    Raises: InvalidValue.
    """
    if not 0 <= die.external_bytes <= die.budget_bytes <= die.total_bytes:
        raise InvalidValue("budget_bytes", "must lie between external_bytes and total_bytes")
    known = Die.objects.filter(ordinal=die.ordinal).first()
    if known is not None and known.uuid and die.uuid and known.uuid != die.uuid:
        logger.warning("die %s is %s now; it was %s", die.ordinal, die.uuid, known.uuid)
    card, _made = Card.objects.update_or_create(
        ordinal=die.card_ordinal, defaults={"name": die.card_name[:128]}
    )
    row, _made = Die.objects.update_or_create(
        ordinal=die.ordinal,
        defaults={
            "card": card,
            "total_bytes": die.total_bytes,
            "budget_bytes": die.budget_bytes,
            "external_bytes": die.external_bytes,
            "failure": die.failure[:1024],
            "uuid": die.uuid,
            "pci_address": die.pci_address,
            "emulated": die.emulated,
            "present": True,
            "measured_at": timezone.now(),
        },
    )
    return row


@transaction.atomic
def dies_record(dies: Sequence[MeasuredDie]) -> None:
    """These are the dies of this host. Rows of others stay for the history, and are shown no more."""
    for die in dies:
        die_record(die)
    Die.objects.exclude(ordinal__in=[die.ordinal for die in dies]).update(present=False)


@transaction.atomic
def dies_measured(dies: Sequence[MeasuredDie]) -> None:
    """What changes on dies that are recorded: use by others, and failures. Few writes, for every look."""
    rows = {row.ordinal: row for row in Die.objects.filter(present=True)}
    for die in dies:
        row = rows.get(die.ordinal)
        if row is None:
            continue
        if (row.external_bytes, row.failure) != (die.external_bytes, die.failure[:1024]):
            row.external_bytes, row.failure = die.external_bytes, die.failure[:1024]
            row.save(update_fields=["external_bytes", "failure"])
    Die.objects.filter(present=True).update(measured_at=timezone.now())
