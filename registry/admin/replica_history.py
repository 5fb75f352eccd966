"""What stands below a replica: the steps it took, and the memory it holds or held."""

from __future__ import annotations

from django.contrib import admin
from django.utils.timezone import localtime

from registry.admin.base import ReadOnlyInline
from registry.models import Binding, ReplicaTransition
from registry.sizes import format_bytes


class TransitionInline(ReadOnlyInline):
    model = ReplicaTransition
    verbose_name_plural = "history"
    fields = readonly_fields = ("when", "old", "new", "reason")

    @admin.display(description="at")
    def when(self, transition: ReplicaTransition) -> str:
        """To the second: loads and drains are short."""
        return f"{localtime(transition.at):%Y-%m-%d %H:%M:%S}"


class BindingInline(ReadOnlyInline):
    model = Binding
    verbose_name_plural = "bindings"
    fields = readonly_fields = ("id", "host", "created_at", "released_at")

    @admin.display(description="host memory")
    def host(self, binding: Binding) -> str:
        return format_bytes(binding.host_bytes)
