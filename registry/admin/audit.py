"""The audit trail, to be read and searched."""

from __future__ import annotations

from django.contrib import admin

from registry.admin.base import ReadOnlyAdmin, display
from registry.admin.labels import OUTCOME_LABELS
from registry.models import AuditEvent


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor", "action", "target", "shown_outcome", "request_id")
    list_filter = ("outcome", "action")
    search_fields = ("actor", "target", "request_id")
    date_hierarchy = "at"
    ordering = ("-id",)
    fields = ("at", "actor", "action", "target", "shown_outcome", "detail", "request_id")

    @display(description="Outcome", ordering="outcome", label=OUTCOME_LABELS)
    def shown_outcome(self, event: AuditEvent) -> tuple[str, str]:
        return event.outcome, event.get_outcome_display()
