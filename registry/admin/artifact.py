"""Model files: what they are, and the buttons that pull and load one."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from registry import services
from registry.admin.base import ReadOnlyAdmin, action, actor_of
from registry.admin.confirmation import (
    Confirmation,
    Done,
    admin_url,
    confirm,
    confirm_in_list,
    row_or_404,
)
from registry.admin.forms import LoadForm, PullForm
from registry.admin_links import row_button
from registry.errors import PlacementRefused
from registry.host_memory import available_bytes
from registry.models import Artifact, Die
from registry.placement import Demand, place
from registry.selectors import die_rooms
from registry.sizes import counted, format_bytes, format_count
from registry.states import LIVE, State


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "shown_file",
        "architecture",
        "parameters",
        "quant_mix",
        "size",
        "num_loaded",
        "load_button",
    )
    list_filter = ("architecture", "has_chat_template")
    search_fields = ("name", "digest", "path", "source")
    ordering = ("name",)
    actions_list = ("pull",)
    actions_detail = ("load",)
    fieldsets = (
        (None, {"fields": ("name", "architecture", "parameters", "quant_mix", "trained_context")}),
        ("Memory", {"fields": ("size", "weights", "kv_per_token", "needed")}),
        ("File", {"fields": ("path", "digest", "source", "has_chat_template", "created_at")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        live = Count("replicas", filter=Q(replicas__state__in=LIVE))
        rows: QuerySet[Any] = super().get_queryset(request).annotate(num_live=live)
        return rows

    def get_list_display(self, request: HttpRequest) -> Any:
        hidden = set() if self.has_load_permission(request) else {"load_button"}
        return [column for column in self.list_display if column not in hidden]

    @admin.display(description="")
    def load_button(self, artifact: Artifact) -> str:
        return row_button("admin:registry_artifact_load", artifact.pk, "Load…")

    @admin.display(description="file", ordering="path")
    def shown_file(self, artifact: Artifact) -> str:
        return artifact.file_name

    @admin.display(description="parameters", ordering="num_parameters")
    def parameters(self, artifact: Artifact) -> str:
        return format_count(artifact.num_parameters)

    @admin.display(description="file size", ordering="file_bytes")
    def size(self, artifact: Artifact) -> str:
        return format_bytes(artifact.file_bytes)

    @admin.display(description="trained context", ordering="context_len")
    def trained_context(self, artifact: Artifact) -> str:
        return counted(artifact.context_len, "token")

    @admin.display(description="weights")
    def weights(self, artifact: Artifact) -> str:
        return format_bytes(artifact.weight_bytes)

    @admin.display(description="KV memory a token")
    def kv_per_token(self, artifact: Artifact) -> str:
        return format_bytes(artifact.kv_bytes_per_token)

    @admin.display(description="needed to load")
    def needed(self, artifact: Artifact) -> str:
        return format_bytes(services.artifact_demand(artifact).total_bytes)

    @admin.display(description="replicas", ordering="num_live")
    def num_loaded(self, artifact: Any) -> int:
        return int(artifact.num_live)

    def has_load_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("registry.load_model")

    def has_pull_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("registry.pull_model")

    @action(description="Pull a model file…", icon="download", permissions=["pull"])
    def pull(self, request: HttpRequest) -> HttpResponse:
        def effect(form: PullForm) -> Done:
            source = form.cleaned_data["source"]
            job = services.pull_request(source=source, actor=actor_of(request))
            return Done(f"{source} is being pulled.", admin_url(job, "change"))

        return confirm_in_list(
            self,
            request,
            Confirmation(
                title="Pull a model file", submit="Pull", effect=effect, form_class=PullForm
            ),
        )

    @action(description="Load…", icon="play_arrow", permissions=["load"])
    def load(self, request: HttpRequest, object_id: str) -> HttpResponse:
        artifact: Artifact = row_or_404(self, request, object_id)

        def effect(form: LoadForm) -> Done:
            data = form.cleaned_data
            replica = services.replica_request(
                artifact=artifact,
                served_name=data["served_name"],
                dies=data.get("dies", ()),
                context_len=data["context_len"] or 0,
                quantize=data.get("quantize", False),
                another=data.get("another", False),
                request_key=data["request_key"],
                actor=actor_of(request),
            )
            page = reverse("admin:registry_replica_change", args=[replica.pk])
            loads = "is loaded" if replica.state == State.READY else "is being loaded"
            return Done(f"{artifact.name} {loads} as '{replica.served_name}'.", page)

        facts, warning = preview(artifact)
        return confirm(
            self,
            request,
            artifact,
            Confirmation(
                title=f"Load {artifact.name}",
                submit="Load",
                effect=effect,
                facts=facts,
                warning=warning,
                form_class=partial(
                    LoadForm,
                    has_dies=Die.objects.filter(present=True).exists(),
                    has_floats=has_float_matrices(artifact),
                    is_loaded=artifact.replicas.filter(state__in=LIVE).exists(),
                ),
                initial={
                    "served_name": artifact.default_served_name,
                    "request_key": uuid.uuid4().hex,
                },
            ),
        )


def has_float_matrices(artifact: Artifact) -> bool:
    """Whether a load could make fewer bytes of some; the mix names formats, as `Q4_1 79 %, F16 21 %`."""
    formats = {part.split()[0] for part in artifact.quant_mix.split(",") if part.strip()}
    return not formats.isdisjoint({"F32", "F16", "BF16"})


BUFFERS_HOLD = "activations, logits and tables of a step"
# Measured: Python, Django, numba and LLVM in a process that serves on the CPU.
SERVERS_OWN = "The server itself takes some 250 MiB, once."


def shared_by(demand: Demand) -> str:
    """`16,384 positions shared by 8 requests of up to 8,192 tokens`"""
    num_slots = settings.PANTHEON["PANTHEON_BATCH_SLOTS"]
    users = f"shared by {num_slots} requests" if num_slots > 1 else "for one request"
    positions = counted(demand.kv_tokens, "position")
    return f"{positions} {users} of up to {counted(demand.context_len, 'token')}"


def preview(artifact: Artifact) -> tuple[list[tuple[str, str]], str]:
    """What loading would take and where it would go, as facts to show; and why it would not fit, else ""."""
    demand, dies = services.artifact_demand(artifact), die_rooms()
    facts = [
        ("Memory needed", f"{format_bytes(demand.total_bytes)} for this model. {SERVERS_OWN}"),
        ("Weights", format_bytes(demand.weight_bytes)),
        ("KV memory", f"{format_bytes(demand.kv_bytes)}: {shared_by(demand)}"),
        ("Buffers", f"{format_bytes(demand.scratch_bytes)} at most: {BUFFERS_HOLD}"),
    ]
    try:
        host_bytes = available_bytes()
    except OSError as error:
        return [*facts, ("Memory free", "unknown")], f"Free memory could not be measured: {error}"
    facts.append(("Host memory free", format_bytes(host_bytes)))
    facts.extend((f"Die {die.ordinal} free", format_bytes(die.free_bytes)) for die in dies)
    try:
        placement = place(demand, dies, host_bytes)
    except PlacementRefused as refusal:
        return facts, refusal.reason
    where = ", ".join(f"die {ordinal}" for ordinal in placement.die_bytes) or "the CPU"
    return [*facts, ("Would run on", where)], ""
