"""Replicas: what is wanted of each, what it is, and every step it took. Knows nothing about running them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from registry.models.artifact import Artifact
from registry.names import PUBLIC_ID_LEN, SERVED_NAME_PATTERN, new_public_id
from registry.states import State, UnloadMode, Wanted


class Replica(models.Model):
    """A loaded, servable instance of a model file, or the wish for one."""

    public_id = models.CharField(
        "id", primary_key=True, max_length=PUBLIC_ID_LEN, default=new_public_id, editable=False
    )
    artifact = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, related_name="replicas", verbose_name="model file"
    )
    served_name = models.CharField(max_length=128, db_index=True)
    wanted = models.CharField(max_length=16, choices=Wanted, default=Wanted.LOADED)
    state = models.CharField(max_length=16, choices=State, default=State.REQUESTED)
    failure_reason = models.CharField(max_length=2048, blank=True, default="")

    dies = models.JSONField(
        default=list, blank=True, help_text="Ordinals; empty: chosen by placement, or the CPU."
    )
    context_len = models.PositiveIntegerField(
        "context wanted", default=0, help_text="Tokens; 0: the server's default."
    )
    quantize = models.BooleanField(default=False, help_text="Float weights become Q8_0 at load.")
    # Two requests that carry the same key are one request: a double click loads once.
    request_key = models.CharField(max_length=64, null=True, unique=True, editable=False)  # noqa: DJ001

    backend = models.CharField(max_length=32, blank=True, default="")
    actual_context_len = models.PositiveIntegerField(
        "context", default=0, help_text="Tokens a sequence may have; 0: not loaded yet."
    )
    num_slots = models.PositiveSmallIntegerField(
        "slots", default=0, help_text="Sequences at once; 0: not loaded yet."
    )
    phase = models.CharField("phase", max_length=128, blank=True, default="")
    progress = models.FloatField("progress", default=0.0)

    unload_mode = models.CharField(max_length=8, choices=UnloadMode, blank=True, default="")
    unload_timeout_s = models.FloatField(null=True, blank=True, help_text="Empty: the default.")

    created_at = models.DateTimeField("requested", auto_now_add=True)
    changed_at = models.DateTimeField("changed", auto_now_add=True)
    ready_at = models.DateTimeField("ready since", null=True, blank=True)

    class Meta:
        ordering = ("served_name", "created_at")
        permissions = (
            ("load_model", "Can load models"),
            ("unload_model", "Can unload models"),
        )
        constraints = (
            models.CheckConstraint(
                name="replica_served_name_is_plain",
                condition=Q(served_name__regex=SERVED_NAME_PATTERN),
            ),
            models.CheckConstraint(
                name="replica_state_is_known", condition=Q(state__in=State.values)
            ),
            models.CheckConstraint(
                name="replica_wanted_is_known", condition=Q(wanted__in=Wanted.values)
            ),
            models.CheckConstraint(
                name="replica_progress_is_a_share",
                condition=Q(progress__gte=0.0, progress__lte=1.0),
            ),
            models.CheckConstraint(
                name="replica_unload_mode_is_known",
                condition=Q(unload_mode__in=["", *UnloadMode.values]),
            ),
            models.CheckConstraint(
                name="replica_unload_timeout_is_positive",
                condition=Q(unload_timeout_s__isnull=True) | Q(unload_timeout_s__gte=0.0),
            ),
            models.CheckConstraint(
                name="replica_failed_has_a_reason",
                condition=~Q(state=State.FAILED) | ~Q(failure_reason=""),
            ),
        )
        indexes = (models.Index(name="replica_wanted_state", fields=["wanted", "state"]),)

    def __str__(self) -> str:
        return f"{self.served_name} ({self.public_id})"

    @property
    def is_moving(self) -> bool:
        """Whether it will become something else without being asked again."""
        settled = State.READY if self.wanted == Wanted.LOADED else State.UNLOADED
        return self.state not in (settled, State.UNLOADED, State.FAILED)


class ReplicaTransition(models.Model):
    """One step of a replica's life. Rows are written once and never changed."""

    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="transitions")
    old = models.CharField("from", max_length=16, choices=State)
    new = models.CharField("to", max_length=16, choices=State)
    reason = models.CharField(max_length=2048, blank=True, default="")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                name="transition_states_are_known",
                condition=Q(old__in=State.values, new__in=State.values),
            ),
        )

    def __str__(self) -> str:
        return f"{self.old} → {self.new}"
