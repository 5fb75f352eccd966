"""How the open load and unload jobs of a replica follow its state. Knows nothing about pulls."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from registry.models import Job, Replica
from registry.services.jobs import job_open
from registry.states import State


def open_jobs(replica: Replica, kind: Job.Kind) -> QuerySet[Job]:
    return Job.objects.filter(replica=replica, kind=kind, state__in=Job.OPEN)


def load_job_open(replica: Replica, actor: str) -> None:
    _open(Job.Kind.LOAD, replica, actor)


def unload_job_open(replica: Replica, actor: str) -> None:
    _open(Job.Kind.UNLOAD, replica, actor)


def _open(kind: Job.Kind, replica: Replica, actor: str) -> None:
    job_open(
        kind=kind, subject=str(replica), actor=actor, artifact=replica.artifact, replica=replica
    )


def unload_job_cancel(replica: Replica, reason: str) -> None:
    open_jobs(replica, Job.Kind.UNLOAD).update(**_ended(Job.State.CANCELED, reason))


def jobs_follow(replica: Replica, old: State, new: State, reason: str, actor: str) -> None:
    """Start, end or requeue the replica's open jobs after it went from `old` to `new`.

    A load that begins again has an open job, as a first one has; `actor` is who asked for it.
    """
    load, unload = open_jobs(replica, Job.Kind.LOAD), open_jobs(replica, Job.Kind.UNLOAD)
    running = {"state": Job.State.RUNNING, "started_at": timezone.now()}
    match new:
        case State.REQUESTED:
            if not load.update(state=Job.State.QUEUED, progress=0.0, message=reason):
                load_job_open(replica, actor)
            unload.update(**_ended(Job.State.CANCELED, reason))
        case State.PLACED | State.LOADING:
            load.filter(state=Job.State.QUEUED).update(**running)
        case State.READY:
            load.update(**_ended(Job.State.DONE, reason))
            # An unload that was asked for during the load is still to come.
            if old is State.DRAINING:
                unload.update(**_ended(Job.State.CANCELED, reason))
        case State.DRAINING:
            unload.filter(state=Job.State.QUEUED).update(**running)
        case State.UNLOADED:
            load.update(**_ended(Job.State.CANCELED, reason))
            unload.update(**_ended(Job.State.DONE, reason))
        case State.FAILED:
            load.update(**_ended(Job.State.FAILED, reason))
            unload.update(**_ended(Job.State.FAILED, reason))


def _ended(state: Job.State, reason: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"state": state, "message": reason, "finished_at": timezone.now()}
    return {**fields, "progress": 1.0} if state is Job.State.DONE else fields
