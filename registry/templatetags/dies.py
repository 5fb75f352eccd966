"""The front page's table of dies: how full each is, with what, and which have failed."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html_join

from registry.admin_links import row_link
from registry.selectors import DieUse, dies_overview
from registry.sizes import format_bytes

register = template.Library()


@register.simple_tag
def dies_in_use() -> dict[str, Any]:
    """Every die of this host, as unfold's table component takes them; no rows on a host without any."""
    return {
        "headers": ["Die", "Card", "Models", "Bound", "Others", "Free", "Remark"],
        "rows": [_row(die) for die in dies_overview()],
    }


def _row(die: DieUse) -> list[str]:
    models = format_html_join(
        ", ",
        "{}",
        (
            (row_link("admin:registry_replica_change", b.replica_id, b.served_name),)
            for b in die.bindings
        ),
    )
    return [
        f"die {die.ordinal}",
        f"card {die.card}, {die.name}",
        models,
        format_bytes(die.bound_bytes),
        format_bytes(die.external_bytes),
        format_bytes(die.free_bytes),
        f"failed: {die.failure}" if die.failure else "",
    ]
