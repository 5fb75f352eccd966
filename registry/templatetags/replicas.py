"""What the admin's templates show of replicas: the table of the front page, and shares as text."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html

from registry.selectors import replicas_overview

register = template.Library()


@register.simple_tag
def loaded_replicas() -> dict[str, Any]:
    """The replicas that are not unloaded, as unfold's table component takes them."""
    rows = [
        [
            format_html(
                '<a class="underline" href="{}">{}</a>',
                reverse("admin:registry_replica_change", args=[replica.pk]),
                replica.served_name,
            ),
            replica.artifact.name,
            replica.get_state_display(),
            f"{replica.phase} {percent(replica.progress)}" if replica.phase else "",
            replica.failure_reason,
        ]
        for replica in replicas_overview()
    ]
    return {"headers": ["Name", "Model file", "State", "Progress", "Reason"], "rows": rows}


@register.filter
def percent(share: float) -> str:
    return f"{share:.0%}"


@register.filter
def unlocalized(number: float) -> str:
    """For attributes that machines read: a point, whatever the language."""
    return f"{number:.3f}"
