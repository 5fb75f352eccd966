"""The audit trail, to be read and searched."""

from __future__ import annotations

import csv
import json

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from registry.admin.base import ReadOnlyAdmin, display
from registry.admin.labels import OUTCOME_LABELS
from registry.models import AuditEvent

CSV_FIELDS = ("at", "actor", "action", "target", "outcome", "request_id", "detail")


def csv_cell(value: object) -> str:
    """A cell that a spreadsheet takes as text: names come from outside, and might be formulas."""
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor", "action", "target", "shown_outcome", "request_id")
    list_filter = ("outcome", "action")
    search_fields = ("actor", "target", "request_id")
    date_hierarchy = "at"
    ordering = ("-id",)
    fields = ("at", "actor", "action", "target", "outcome", "detail", "request_id")

    actions = ("export_csv",)

    @admin.action(description="Export the selected events as CSV", permissions=["view"])
    def export_csv(self, request: HttpRequest, selected: QuerySet[AuditEvent]) -> HttpResponse:
        response = HttpResponse(content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = 'attachment; filename="audit.csv"'
        writer = csv.writer(response)
        writer.writerow(CSV_FIELDS)
        for event in selected.iterator():
            writer.writerow(csv_cell(getattr(event, name)) for name in CSV_FIELDS)
        return response

    @display(description="Outcome", ordering="outcome", label=OUTCOME_LABELS)
    def shown_outcome(self, event: AuditEvent) -> tuple[str, str]:
        return event.outcome, event.get_outcome_display()
