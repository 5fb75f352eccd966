"""The colour of each state. The word always stands beside it: colour alone says nothing to some."""

from __future__ import annotations

from registry.models import AuditEvent, Job
from registry.states import State

STATE_LABELS: dict[str, str] = {
    State.REQUESTED.value: "info",
    State.PLACED.value: "info",
    State.LOADING.value: "info",
    State.READY.value: "success",
    State.DRAINING.value: "warning",
    State.UNLOADED.value: "",
    State.FAILED.value: "danger",
}
JOB_LABELS: dict[str, str] = {
    Job.State.QUEUED.value: "info",
    Job.State.RUNNING.value: "info",
    Job.State.DONE.value: "success",
    Job.State.FAILED.value: "danger",
    Job.State.CANCELED.value: "warning",
}
OUTCOME_LABELS: dict[str, str] = {
    AuditEvent.Outcome.OK.value: "success",
    AuditEvent.Outcome.REFUSED.value: "warning",
}
