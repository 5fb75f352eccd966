"""Cards and their dies as last measured. Knows nothing about drivers: the supervisor reports."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q


class Card(models.Model):
    """A board. Its dies share a switch, so copies between them are cheap."""

    ordinal = models.PositiveSmallIntegerField(unique=True)
    name = models.CharField(max_length=128)

    class Meta:
        ordering = ("ordinal",)

    def __str__(self) -> str:
        return f"card {self.ordinal} ({self.name})"


class Die(models.Model):
    """The unit of memory ownership. `failure` empty: usable."""

    ordinal = models.PositiveSmallIntegerField(unique=True)
    card = models.ForeignKey(Card, on_delete=models.PROTECT, related_name="dies")
    total_bytes = models.PositiveBigIntegerField()
    budget_bytes = models.PositiveBigIntegerField(help_text="Total minus the reserve.")
    external_bytes = models.PositiveBigIntegerField(
        default=0, help_text="What other processes hold beyond the reserve, as last measured."
    )
    failure = models.CharField(max_length=1024, blank=True, default="")
    uuid = models.CharField("UUID", max_length=64, blank=True, default="")
    pci_address = models.CharField("PCI address", max_length=32, blank=True, default="")
    emulated = models.BooleanField(default=False, help_text="Runs on the host; for trying things.")
    present = models.BooleanField(
        default=True, help_text="Whether the driver listed it when the server last looked."
    )
    measured_at = models.DateTimeField()

    class Meta:
        ordering = ("ordinal",)
        constraints = (
            models.CheckConstraint(
                name="die_budget_within_total", condition=Q(budget_bytes__lte=F("total_bytes"))
            ),
            models.CheckConstraint(
                name="die_external_within_budget",
                condition=Q(external_bytes__lte=F("budget_bytes")),
            ),
        )

    def __str__(self) -> str:
        return f"die {self.ordinal}{' (emulated)' if self.emulated else ''}"
