"""Replicas: what is loaded, how it came to be, and the buttons that end, keep or retry one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from unfold.enums import ActionVariant

from registry import services
from registry.admin.base import ReadOnlyAdmin, action, actor_of, display
from registry.admin.confirmation import (
    Confirmation,
    Done,
    confirm,
    confirm_selected,
    nothing_to_do,
    row_or_404,
)
from registry.admin.forms import UnloadForm
from registry.admin.labels import STATE_LABELS
from registry.admin.live import all_replicas_mark, page_or_anew, replica_mark
from registry.admin.replica_history import BindingInline, TransitionInline
from registry.admin_links import row_button
from registry.models import Replica
from registry.sizes import counted
from registry.states import HELD, State, UnloadMode, Wanted

EFFECTS_ON_STREAMS = {
    State.READY: "Requests that are running will finish within the time limit, or be ended with an"
    " error if you choose force. New requests for this replica are refused at once.",
    State.LOADING: "The load is given up; no request is running on it yet.",
    State.DRAINING: "It is being unloaded already. Force ends the requests that still run.",
}


RUNNING_FIELDS = ["backend", "actual_context_len", "num_slots", "ready_at"]


@admin.register(Replica)
class ReplicaAdmin(ReadOnlyAdmin):
    list_display = (
        "served_name",
        "artifact",
        "shown_file",
        "shown_state",
        "shown_progress",
        "changed_at",
        "unload_button",
    )
    list_display_links = ("served_name",)
    list_filter = ("state", "wanted", "artifact__architecture")
    list_select_related = ("artifact",)
    search_fields = ("served_name", "public_id", "artifact__name")
    ordering = ("served_name", "-created_at")
    actions = ("unload_selected",)
    actions_detail = ("unload", "cancel_unload", "retry")
    list_before_template = "admin/registry/replica_list_watch.html"
    change_form_outer_before_template = "admin/registry/replica_progress.html"

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        mark = all_replicas_mark()
        page = super().changelist_view(request, {**(extra_context or {}), "mark": mark})
        return page_or_anew(request, mark, page)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        replica = Replica.objects.filter(pk=object_id).first()
        mark = replica_mark(replica) if replica is not None else ""
        context = {**(extra_context or {}), "mark": mark}
        page = super().change_view(request, object_id, form_url, context)
        return page_or_anew(request, mark, page)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """What means something for the replica as it is."""
        asked = ["shown_context", "shown_dies"] if obj.dies else ["shown_context"]
        parts = [
            (None, ["public_id", "served_name", "artifact", "shown_file", "state", "wanted"]),
            ("Why it failed", ["failure_reason"] if obj.state == State.FAILED else []),
            ("Running", RUNNING_FIELDS if obj.num_slots else []),
            ("Asked for", [*asked, "created_at", "changed_at"]),
        ]
        return [(title, {"fields": fields}) for title, fields in parts if fields]

    def get_inlines(self, request: HttpRequest, obj: Any = None) -> Any:
        return [TransitionInline, *([BindingInline] if obj.bindings.exists() else [])]

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Of the buttons the user may press, those that make sense for the replica as it is."""
        allowed = super().get_actions_detail(request, object_id)
        replica = Replica.objects.filter(pk=object_id).first()
        fitting = buttons_for(replica) if replica is not None else set()
        return [a for a in allowed if a.action_name.removeprefix("registry_replica_") in fitting]

    def has_load_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("registry.load_model")

    def has_unload_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("registry.unload_model")

    def get_list_display(self, request: HttpRequest) -> Any:
        hidden = set() if self.has_unload_permission(request) else {"unload_button"}
        return [column for column in self.list_display if column not in hidden]

    @admin.display(description="")
    def unload_button(self, replica: Replica) -> str:
        if "unload" not in buttons_for(replica):
            return ""
        return row_button("admin:registry_replica_unload", replica.pk, "Unload…")

    @display(description="State", ordering="state", label=STATE_LABELS)
    def shown_state(self, replica: Replica) -> tuple[str, str]:
        leaving = replica.wanted == Wanted.UNLOADED and replica.state in HELD - {State.DRAINING}
        shown = replica.get_state_display()
        return replica.state, f"{shown}, to be unloaded" if leaving else shown

    @admin.display(description="dies")
    def shown_dies(self, replica: Replica) -> str:
        return ", ".join(map(str, replica.dies))

    @admin.display(description="context")
    def shown_context(self, replica: Replica) -> str:
        return (
            counted(replica.context_len, "token") if replica.context_len else "the server's default"
        )

    @admin.display(description="file")
    def shown_file(self, replica: Replica) -> str:
        return replica.artifact.file_name

    @admin.display(description="progress")
    def shown_progress(self, replica: Replica) -> str:
        shown = replica.failure_reason[:120] if replica.state == State.FAILED else ""
        if replica.state in (State.PLACED, State.LOADING):
            shown = f"{replica.phase} {replica.progress:.0%}".strip()
        return format_html('<span id="progress-{}">{}</span>', replica.pk, shown)

    @action(
        description="Unload…",
        icon="stop",
        permissions=["unload"],
        variant=ActionVariant.DANGER,
    )
    def unload(self, request: HttpRequest, object_id: str) -> HttpResponse:
        replica: Replica = row_or_404(self, request, object_id)
        if replica.state == State.UNLOADED:
            return nothing_to_do(request, replica, f"{replica} is unloaded already.")

        def effect(form: UnloadForm) -> Done:
            services.replica_request_unload(
                wanted=replica.pk, actor=actor_of(request), **form.cleaned_data
            )
            return Done(f"{replica} is being unloaded.")

        return confirm(
            self,
            request,
            replica,
            Confirmation(
                title=f"Unload {replica}",
                submit="Unload",
                effect=effect,
                facts=[
                    ("State", replica.get_state_display()),
                    ("Model file", replica.artifact.name),
                ],
                warning=EFFECTS_ON_STREAMS.get(State(replica.state), ""),
                is_dangerous=True,
                form_class=UnloadForm,
                initial={"mode": UnloadMode.DRAIN},
            ),
        )

    @admin.action(description="Unload the selected replicas…", permissions=["unload"])
    def unload_selected(self, request: HttpRequest, selected: QuerySet[Replica]) -> HttpResponse:
        replicas = [r for r in selected.select_related("artifact") if r.state != State.UNLOADED]

        def effect(form: UnloadForm) -> Done:
            for replica in replicas:
                services.replica_request_unload(
                    wanted=replica.pk, actor=actor_of(request), **form.cleaned_data
                )
            are = "is" if len(replicas) == 1 else "are"
            return Done(f"{counted(len(replicas), 'replica')} {are} being unloaded.")

        return confirm_selected(
            self,
            request,
            replicas,
            Confirmation(
                title=f"Unload {counted(len(replicas), 'replica')}",
                submit="Unload",
                effect=effect,
                facts=[(str(replica), replica.get_state_display()) for replica in replicas],
                warning=EFFECTS_ON_STREAMS[State.READY],
                is_dangerous=True,
                form_class=UnloadForm,
                initial={"mode": UnloadMode.DRAIN},
            ),
        )

    @action(
        description="Cancel unload…",
        icon="undo",
        url_path="cancel-unload",
        permissions=["unload"],
    )
    def cancel_unload(self, request: HttpRequest, object_id: str) -> HttpResponse:
        replica: Replica = row_or_404(self, request, object_id)

        def effect(form: Any) -> Done:
            services.replica_cancel_unload(replica_id=replica.pk, actor=actor_of(request))
            return Done(f"{replica} stays loaded.")

        return confirm(
            self,
            request,
            replica,
            Confirmation(
                title=f"Keep {replica} loaded",
                submit="Keep it loaded",
                effect=effect,
                facts=[("State", replica.get_state_display())],
            ),
        )

    @action(description="Try again…", icon="refresh", permissions=["load"])
    def retry(self, request: HttpRequest, object_id: str) -> HttpResponse:
        replica: Replica = row_or_404(self, request, object_id)

        def effect(form: Any) -> Done:
            services.replica_retry(replica_id=replica.pk, actor=actor_of(request))
            return Done(f"{replica} is being loaded again.")

        return confirm(
            self,
            request,
            replica,
            Confirmation(
                title=f"Try to load {replica} again",
                submit="Try again",
                effect=effect,
                facts=[("State", replica.get_state_display())],
                warning=replica.failure_reason,
            ),
        )


def buttons_for(replica: Replica) -> set[str]:
    """The actions that would change something for a replica in this state."""
    if replica.state == State.UNLOADED:
        return set()
    if replica.state == State.FAILED:
        return {"unload", "retry"}
    if replica.wanted == Wanted.UNLOADED:
        return {"unload", "cancel_unload"}
    return {"unload"}
