"""Rows of slow work."""

from __future__ import annotations

import pytest

from registry.errors import JobNotCancelable, JobNotFound
from registry.models import Job
from registry.services import (
    job_cancel_requested,
    job_finish,
    job_get,
    job_open,
    job_progress,
    job_request_cancel,
    job_start,
    replica_request,
)
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db


@pytest.fixture
def pull(db):
    return job_open(kind=Job.Kind.PULL, subject="hf:a/b", actor=ACTOR)


def test_a_job_runs_from_start_to_end(pull, artifact):
    job_progress(pull.pk, 0.5, "not started yet")
    job_start(pull.pk)
    job_progress(pull.pk, 0.25, "40 of 160 MiB")
    job = job_get(pull.pk)
    assert (job.state, job.progress, job.message) == (Job.State.RUNNING, 0.25, "40 of 160 MiB")
    assert job_finish(pull.pk, Job.State.DONE, "Pulled.", artifact=artifact)
    job = job_get(pull.pk)
    assert (job.state, job.progress, job.artifact) == (Job.State.DONE, 1.0, artifact)
    assert job.started_at <= job.finished_at


def test_an_ended_job_does_not_change(pull):
    job_start(pull.pk)
    job_finish(pull.pk, Job.State.FAILED, "No route to host.")
    job_progress(pull.pk, 0.9, "late")
    assert not job_finish(pull.pk, Job.State.DONE)
    job = job_get(pull.pk)
    assert (job.state, job.message) == (Job.State.FAILED, "No route to host.")


@pytest.mark.parametrize(("share", "kept"), [(-1.0, 0.0), (2.0, 1.0)])
def test_progress_stays_a_share(pull, share, kept):
    job_start(pull.pk)
    job_progress(pull.pk, share)
    assert job_get(pull.pk).progress == kept


def test_a_pull_can_be_cancelled_once_or_twice(pull):
    assert not job_cancel_requested(pull.pk)
    for _ in range(2):
        assert job_request_cancel(pull.pk, actor=ACTOR).cancel_requested
    assert job_cancel_requested(pull.pk)


def test_what_has_ended_cannot_be_cancelled(pull):
    job_finish(pull.pk, Job.State.DONE)
    with pytest.raises(JobNotCancelable, match="is done and can no longer be cancelled"):
        job_request_cancel(pull.pk, actor=ACTOR)


def test_a_load_is_not_cancelled_behind_its_replica(artifact):
    replica = replica_request(artifact=artifact, served_name="chat", actor=ACTOR)
    with pytest.raises(JobNotCancelable):
        job_request_cancel(replica.jobs.get().pk, actor=ACTOR)


def test_unknown_jobs_are_refused(db):
    with pytest.raises(JobNotFound, match="There is no job 'nothing'"):
        job_get("nothing")
