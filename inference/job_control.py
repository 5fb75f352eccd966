"""Jobs by request: asking for a pull, looking at jobs, cancelling one, as the JSON control API does.

Owns the answers' shape. Writes through `registry.services` alone; `inference.pull_jobs` does the work.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from inference.sources import parse_source
from registry import selectors, services
from registry.models import Job

NUM_LISTED = 100


class JobStatus(msgspec.Struct, frozen=True):
    job_id: str
    kind: str
    state: str
    subject: str
    progress: float  # 0..1
    message: str
    replica_id: str | None
    artifact: str | None  # digest of the model file, once it is here
    asked_at: datetime
    finished_at: datetime | None


def pull(source: str, actor: str) -> JobStatus:
    """Raises: InvalidSource, InvalidValue."""
    parse_source(source)
    return status(services.pull_request(source=source, actor=actor))


def job(job_id: str) -> JobStatus:
    """Raises: JobNotFound."""
    return status(services.job_get(job_id))


def newest() -> tuple[JobStatus, ...]:
    return tuple(status(each) for each in selectors.jobs_newest(NUM_LISTED))


def cancel(job_id: str, actor: str) -> JobStatus:
    """Raises: JobNotFound, JobNotCancelable."""
    return status(services.job_request_cancel(job_id, actor=actor))


def status(job: Job) -> JobStatus:
    return JobStatus(
        job_id=job.pk,
        kind=job.kind,
        state=job.state,
        subject=job.subject,
        progress=round(job.progress, 4),
        message=job.message,
        replica_id=job.replica_id,
        artifact=job.artifact.digest if job.artifact is not None else None,
        asked_at=job.created_at,
        finished_at=job.finished_at,
    )
