"""The audit trail: who asked for what, and what came of it. Rows are written once and never changed."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class AuditEvent(models.Model):
    class Outcome(models.TextChoices):
        OK = "ok", "OK"
        REFUSED = "refused", "Refused"

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=255)
    action = models.CharField(max_length=64, db_index=True)
    target = models.CharField(max_length=512)
    outcome = models.CharField(max_length=8, choices=Outcome)
    detail = models.JSONField(default=dict, blank=True)
    request_id = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(
                name="audit_outcome_is_known", condition=Q(outcome__in=("ok", "refused"))
            ),
            models.CheckConstraint(name="audit_has_actor", condition=~Q(actor="")),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.target}"
