"""Jobs: slow work with progress. Knows nothing about who does the work."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from registry.models.artifact import Artifact
from registry.models.replica import Replica
from registry.names import PUBLIC_ID_LEN, new_public_id


class Job(models.Model):
    """One pull, load or unload, from the wish to its end."""

    class Kind(models.TextChoices):
        PULL = "pull", "Pull"
        LOAD = "load", "Load"
        UNLOAD = "unload", "Unload"

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELED = "canceled", "Cancelled"

    OPEN = (State.QUEUED, State.RUNNING)

    public_id = models.CharField(
        "id", primary_key=True, max_length=PUBLIC_ID_LEN, default=new_public_id, editable=False
    )
    kind = models.CharField(max_length=8, choices=Kind)
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    progress = models.FloatField(default=0.0)
    message = models.CharField(max_length=2048, blank=True, default="")
    subject = models.CharField(max_length=1024, help_text="What is pulled, loaded or unloaded.")
    artifact = models.ForeignKey(
        Artifact,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="jobs",
        verbose_name="model file",
    )
    replica = models.ForeignKey(
        Replica, null=True, blank=True, on_delete=models.CASCADE, related_name="jobs"
    )
    actor = models.CharField(max_length=255)
    cancel_requested = models.BooleanField(default=False)
    created_at = models.DateTimeField("asked", auto_now_add=True)
    started_at = models.DateTimeField("started", null=True, blank=True)
    finished_at = models.DateTimeField("finished", null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.CheckConstraint(
                name="job_kind_is_known", condition=Q(kind__in=("pull", "load", "unload"))
            ),
            models.CheckConstraint(
                name="job_state_is_known",
                condition=Q(state__in=("queued", "running", "done", "failed", "canceled")),
            ),
            models.CheckConstraint(
                name="job_progress_is_a_share", condition=Q(progress__gte=0.0, progress__lte=1.0)
            ),
            models.CheckConstraint(
                name="job_ends_with_a_time",
                condition=Q(state__in=("queued", "running"), finished_at__isnull=True)
                | Q(state__in=("done", "failed", "canceled"), finished_at__isnull=False),
            ),
            models.UniqueConstraint(
                name="job_one_open_per_replica_and_kind",
                fields=["replica", "kind"],
                condition=Q(state__in=("queued", "running")),
            ),
        )
        indexes = (models.Index(name="job_created", fields=["-created_at"]),)

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN
