"""Bindings: the record of memory given to replicas. Released by id, never by name."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from registry.models.hardware import Die
from registry.models.replica import Replica


class Binding(models.Model):
    """Memory held for one replica, on dies or on the host. `released_at` empty: still held."""

    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="bindings")
    dies: models.ManyToManyField[Die, BindingShare] = models.ManyToManyField(
        Die, through="BindingShare", related_name="bindings"
    )
    host_bytes = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField("bound", auto_now_add=True)
    released_at = models.DateTimeField("released", null=True, blank=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(
                name="binding_one_held_per_replica",
                fields=["replica"],
                condition=Q(released_at__isnull=True),
            ),
        )

    def __str__(self) -> str:
        return f"binding {self.pk}"


class BindingShare(models.Model):
    """What a binding takes of one die. A layer split need not be even."""

    binding = models.ForeignKey(Binding, on_delete=models.CASCADE, related_name="shares")
    die = models.ForeignKey(Die, on_delete=models.PROTECT, related_name="shares")
    bound_bytes = models.PositiveBigIntegerField()

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(name="share_one_per_die", fields=["binding", "die"]),
            models.CheckConstraint(name="share_takes_something", condition=Q(bound_bytes__gt=0)),
        )

    def __str__(self) -> str:
        return f"{self.die} of {self.binding}"
