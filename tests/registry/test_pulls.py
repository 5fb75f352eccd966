"""Asking for pulls: one job for one source, and what a restart does to open ones."""

from __future__ import annotations

import pytest

from registry.errors import InvalidValue
from registry.models import AuditEvent, Job
from registry.selectors import pulls_to_run
from registry.services import (
    job_finish,
    job_get,
    job_request_cancel,
    job_start,
    pull_request,
    pulls_reset_at_boot,
    replica_request,
)
from tests.registry.conftest import ACTOR

pytestmark = pytest.mark.django_db
SOURCE = "hf:a/b"


def ask(source=SOURCE):
    return pull_request(source=source, actor=ACTOR)


def test_a_pull_is_a_queued_job_and_an_audit_row():
    job = ask(f"  {SOURCE} ")
    assert (job.kind, job.state, job.subject) == ("pull", "queued", SOURCE)
    assert pulls_to_run() == [job]
    assert AuditEvent.objects.get().action == "artifact.pull"


def test_asking_again_finds_the_open_pull():
    job = ask()
    assert ask() == job
    job_start(job.pk)
    assert ask() == job
    job_finish(job.pk, Job.State.DONE)
    assert ask() != job


def test_a_cancelled_pull_is_not_joined():
    job = ask()
    job_request_cancel(job.pk, actor=ACTOR)
    assert ask() != job


@pytest.mark.parametrize("source", ["", "  ", "a\nb", "x" * 1025])
def test_text_that_cannot_name_a_source_is_refused(source):
    with pytest.raises(InvalidValue, match="printable"):
        ask(source)
    assert not Job.objects.exists()


def test_a_restart_fails_the_pulls_that_were_under_way(artifact):
    load = replica_request(artifact=artifact, served_name="chat", actor=ACTOR).jobs.get()
    pull = ask()
    job_start(pull.pk)
    assert pulls_reset_at_boot() == 1
    assert "pull again" in job_get(pull.pk).message
    assert job_get(load.pk).state == Job.State.QUEUED
