"""Dies: what each may give, what is taken, and by whom."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse

from registry.admin.base import ReadOnlyAdmin, ReadOnlyInline
from registry.models import BindingShare, Die
from registry.selectors import NO_DIES
from registry.sizes import format_bytes


class ShareInline(ReadOnlyInline):
    model = BindingShare
    verbose_name_plural = "bindings"
    fields = readonly_fields = ("replica", "bound", "since")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        held = super().get_queryset(request).filter(binding__released_at__isnull=True)
        return held.select_related("binding__replica", "die")

    @admin.display(description="replica")
    def replica(self, share: BindingShare) -> str:
        return str(share.binding.replica)

    @admin.display(description="bound")
    def bound(self, share: BindingShare) -> str:
        return format_bytes(share.bound_bytes)

    @admin.display(description="since")
    def since(self, share: BindingShare) -> Any:
        return share.binding.created_at


@admin.register(Die)
class DieAdmin(ReadOnlyAdmin):
    list_display = (
        "ordinal",
        "card",
        "pci_address",
        "budget",
        "external",
        "bound",
        "free",
        "failure",
        "measured_at",
    )
    list_filter = ("card",)
    list_select_related = ("card",)
    inlines = (ShareInline,)
    fields = (
        "ordinal",
        "card",
        "pci_address",
        "uuid",
        "emulated",
        "total",
        "budget",
        "external",
        "bound",
        "free",
        "failure",
        "measured_at",
    )

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        no_dies = "" if Die.objects.filter(present=True).exists() else NO_DIES
        return super().changelist_view(request, {**(extra_context or {}), "no_dies": no_dies})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        held = Sum("shares__bound_bytes", filter=Q(shares__binding__released_at__isnull=True))
        present = super().get_queryset(request).filter(present=True)
        rows: QuerySet[Any] = present.annotate(held_bytes=held)
        return rows

    @admin.display(description="total", ordering="total_bytes")
    def total(self, die: Die) -> str:
        return format_bytes(die.total_bytes)

    @admin.display(description="budget", ordering="budget_bytes")
    def budget(self, die: Die) -> str:
        return format_bytes(die.budget_bytes)

    @admin.display(description="used by others", ordering="external_bytes")
    def external(self, die: Die) -> str:
        return format_bytes(die.external_bytes)

    @admin.display(description="bound", ordering="held_bytes")
    def bound(self, die: Any) -> str:
        return format_bytes(die.held_bytes or 0)

    @admin.display(description="free")
    def free(self, die: Any) -> str:
        taken = die.external_bytes + (die.held_bytes or 0)
        return format_bytes(0 if die.failure else max(die.budget_bytes - taken, 0))
