"""What the admin's templates show of models: the tables of the front page, and shares as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template

from registry.admin_links import row_button, row_link
from registry.models import Artifact, Replica
from registry.selectors import newest_artifacts as newest_of_all
from registry.selectors import replicas_overview
from registry.sizes import format_bytes
from registry.states import Wanted

register = template.Library()

NUM_NEWEST = 8


@register.simple_tag(takes_context=True)
def loaded_replicas(context: dict[str, Any]) -> dict[str, Any]:
    """The replicas that are not unloaded, as unfold's table component takes them."""
    may_unload = context["user"].has_perm("registry.unload_model")
    rows = [
        [
            row_link("admin:registry_replica_change", replica.pk, replica.served_name),
            replica.artifact.file_name,
            replica.get_state_display(),
            f"{replica.phase} {percent(replica.progress)}" if replica.phase else "",
            replica.failure_reason,
            row_button("admin:registry_replica_unload", replica.pk, "Unload…")
            if may_unload and replica.wanted == Wanted.LOADED
            else "",
        ]
        for replica in replicas_overview()
    ]
    return {"headers": ["Name", "File", "State", "Progress", "Reason", ""], "rows": rows}


@register.simple_tag(takes_context=True)
def newest_artifacts(context: dict[str, Any]) -> dict[str, Any]:
    """The model files registered last, likewise."""
    may_load = context["user"].has_perm("registry.load_model")
    rows = [_artifact_row(artifact, may_load) for artifact in newest_of_all(NUM_NEWEST)]
    return {"headers": ["Name", "File", "Quantization", "Size", ""], "rows": rows}


def _artifact_row(artifact: Artifact, may_load: bool) -> list[str]:
    return [
        row_link("admin:registry_artifact_change", artifact.pk, artifact.name),
        artifact.file_name,
        artifact.quant_mix,
        format_bytes(artifact.file_bytes),
        row_button("admin:registry_artifact_load", artifact.pk, "Load…") if may_load else "",
    ]


@register.filter
def moving(replicas: Iterable[Replica]) -> list[Replica]:
    return [replica for replica in replicas if replica.is_moving]


@register.filter
def percent(share: float) -> str:
    return f"{share:.0%}"


@register.filter
def unlocalized(number: float) -> str:
    """For attributes that machines read: a point, whatever the language."""
    return f"{number:.3f}"
