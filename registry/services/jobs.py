"""Rows of slow work: opening, progress, ending. Knows nothing about doing the work.

Whoever does the work looks at `job_cancel_requested` now and then, and ends the job itself.
"""

from __future__ import annotations

from django.utils import timezone

from registry.errors import JobNotCancelable, JobNotFound
from registry.models import Artifact, Job, Replica
from registry.names import printable
from registry.services.audit import audited

MESSAGE_LEN = 2048


def job_open(
    *,
    kind: Job.Kind,
    subject: str,
    actor: str,
    artifact: Artifact | None = None,
    replica: Replica | None = None,
) -> Job:
    return Job.objects.create(
        kind=kind,
        subject=subject[:1024],
        actor=printable(actor[:255]),
        artifact=artifact,
        replica=replica,
    )


def job_get(job_id: str) -> Job:
    """Raises: JobNotFound."""
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise JobNotFound(job_id[:64])
    return job


def job_start(job_id: str) -> None:
    Job.objects.filter(pk=job_id, state=Job.State.QUEUED).update(
        state=Job.State.RUNNING, started_at=timezone.now()
    )


def job_progress(job_id: str, share: float, message: str = "") -> None:
    """Show how far a running job is; a job that has ended is left alone."""
    Job.objects.filter(pk=job_id, state=Job.State.RUNNING).update(
        progress=min(max(share, 0.0), 1.0), message=printable(message)[:MESSAGE_LEN]
    )


def job_finish(
    job_id: str,
    state: Job.State,
    message: str = "",
    *,
    artifact: Artifact | None = None,
) -> bool:
    """End an open job; False when it had ended already. `state` is done, failed or canceled."""
    fields: dict[str, object] = {} if artifact is None else {"artifact": artifact}
    if state is Job.State.DONE:
        fields["progress"] = 1.0
    changed = Job.objects.filter(pk=job_id, state__in=Job.OPEN).update(
        state=state, message=printable(message)[:MESSAGE_LEN], finished_at=timezone.now(), **fields
    )
    return changed == 1


def job_cancel_requested(job_id: str) -> bool:
    return Job.objects.filter(pk=job_id, cancel_requested=True).exists()


def job_request_cancel(job_id: str, *, actor: str) -> Job:
    """Ask for the end of a pull. Asking twice is asking once. Raises: JobNotFound, JobNotCancelable.

    Loads and unloads are cancelled through their replica, which knows what to undo.
    """
    job = job_get(job_id)
    with audited("job.cancel", str(job), actor):
        if job.state not in Job.OPEN or job.kind != Job.Kind.PULL:
            raise JobNotCancelable(job_id, job.state)
        Job.objects.filter(pk=job_id).update(cancel_requested=True)
    job.refresh_from_db()
    return job
