"""Jobs: what slow work is under way, and how earlier work ended."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from registry import services
from registry.admin.base import ReadOnlyAdmin, action, actor_of, display
from registry.admin.confirmation import Confirmation, Done, confirm, row_or_404
from registry.admin.labels import JOB_LABELS
from registry.admin.live import page_or_anew
from registry.models import Job


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ("subject", "kind", "shown_state", "share", "message", "actor", "created_at")
    list_filter = ("kind", "state")
    list_select_related = ("artifact", "replica")
    search_fields = ("subject", "actor", "public_id", "message")
    date_hierarchy = "created_at"
    ordering = ("-created_at",)
    actions_detail = ("cancel",)
    fieldsets = (
        (None, {"fields": ("public_id", "kind", "subject", "state", "share", "message")}),
        ("About", {"fields": ("artifact", "replica", "actor")}),
        ("Times", {"fields": ("created_at", "started_at", "finished_at")}),
    )

    change_form_outer_before_template = "admin/registry/job_progress.html"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """A job that ends while its page is open loads the page anew: its buttons and links change."""
        job = Job.objects.filter(pk=object_id).first()
        mark = job.state if job is not None else ""
        context = {**(extra_context or {}), "mark": mark}
        page = super().change_view(request, object_id, form_url, context)
        return page_or_anew(request, mark, page)

    @display(description="State", ordering="state", label=JOB_LABELS)
    def shown_state(self, job: Job) -> tuple[str, str]:
        return job.state, job.get_state_display()

    @admin.display(description="progress", ordering="progress")
    def share(self, job: Job) -> str:
        return f"{job.progress:.0%}"

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Only a pull that is not finished has something to cancel here."""
        pulls = Job.objects.filter(pk=object_id, kind=Job.Kind.PULL, state__in=Job.OPEN)
        if not pulls.exists():
            return []
        return super().get_actions_detail(request, object_id)

    def has_pull_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("registry.pull_model")

    @action(description="Cancel…", icon="cancel", permissions=["pull"])
    def cancel(self, request: HttpRequest, object_id: str) -> HttpResponse:
        job: Job = row_or_404(self, request, object_id)

        def effect(form: Any) -> Done:
            services.job_request_cancel(job.pk, actor=actor_of(request))
            return Done(f"The {job} is being cancelled.")

        return confirm(
            self,
            request,
            job,
            Confirmation(
                title=f"Cancel the {job}",
                submit="Cancel it",
                effect=effect,
                facts=[("State", job.get_state_display()), ("Progress", f"{job.progress:.0%}")],
                is_dangerous=True,
            ),
        )
