"""Asking for pulls, and what a restart does to them. Knows nothing about fetching.

A pull is its job row: whoever fetches looks for queued ones, and ends the job itself.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from registry.errors import InvalidValue
from registry.models import Job
from registry.notify import announce_wanted_changed
from registry.services.audit import audited
from registry.services.jobs import job_open

MAX_SOURCE_LEN = 1024


def pull_request(*, source: str, actor: str) -> Job:
    """Ask for a model file. While one source is being pulled, asking for it again is asking once.

    Raises: InvalidValue.
    """
    source = source.strip()
    with audited("artifact.pull", source[:512], actor):
        if not source or len(source) > MAX_SOURCE_LEN or not source.isprintable():
            raise InvalidValue("source", f"must be 1 to {MAX_SOURCE_LEN} printable characters")
        pulls = Job.objects.filter(kind=Job.Kind.PULL, subject=source, state__in=Job.OPEN)
        job = pulls.filter(cancel_requested=False).first()
        if job is None:
            job = job_open(kind=Job.Kind.PULL, subject=source, actor=actor)
        announce_wanted_changed()
    return job


@transaction.atomic
def pulls_reset_at_boot() -> int:
    """Fail the pulls that an earlier process left unfinished; how many there were."""
    return Job.objects.filter(kind=Job.Kind.PULL, state__in=Job.OPEN).update(
        state=Job.State.FAILED,
        message="The server stopped before the pull was done; pull again to resume it.",
        finished_at=timezone.now(),
    )
