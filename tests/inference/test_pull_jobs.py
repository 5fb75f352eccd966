"""Queued pulls are carried out in turn, and their rows say how they went."""

from __future__ import annotations

import threading
import time

import pytest
from django.db.utils import OperationalError

from inference import pull_jobs
from inference.pull_jobs import PullJobs
from registry import services
from registry.models import Artifact, Job
from tests.fakes.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 20


@pytest.fixture(autouse=True)
def folder(settings, tmp_path, monkeypatch):
    settings.MODELS_DIR = tmp_path
    settings.MODEL_DIRS = (tmp_path,)
    monkeypatch.setattr(pull_jobs, "POLL_S", 0.05)
    monkeypatch.setattr(pull_jobs, "PROGRESS_S", 0.0)
    return tmp_path


@pytest.fixture
def running():
    jobs = PullJobs()
    jobs.start()
    yield jobs
    jobs.stop()
    jobs.join(WAIT_S)


def ended(job):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        job.refresh_from_db()
        if not job.is_open:
            return job
        time.sleep(0.02)
    raise AssertionError(f"{job} stayed {job.state}")


def ask(source):
    return services.pull_request(source=str(source), actor="test")


def slow_pull(monkeypatch):
    """A pull that goes on until its progress function ends it; set once it runs."""
    begun = threading.Event()

    def pull_and_register(text, models_dir, progress):
        begun.set()
        while True:
            progress(1_000_000, 2_000_000)
            time.sleep(0.01)

    monkeypatch.setattr(pull_jobs, "pull_and_register", pull_and_register)
    return begun


def test_a_file_in_a_model_folder_becomes_an_artifact(running, folder):
    path = write_tiny_gguf(folder / "tiny.gguf")
    job = ended(ask(path))
    assert (job.state, job.progress, job.artifact) == (Job.State.DONE, 1.0, Artifact.objects.get())


def test_a_repository_without_its_prefix_is_told_how_it_is_written(running):
    job = ended(ask("Qwen/Qwen3-0.6B-GGUF"))
    assert job.state == Job.State.FAILED
    assert job.message.endswith("is written hf:Qwen/Qwen3-0.6B-GGUF.")


def test_a_file_elsewhere_is_refused(running, tmp_path_factory):
    path = write_tiny_gguf(tmp_path_factory.mktemp("elsewhere") / "tiny.gguf")
    job = ended(ask(path))
    assert job.state == Job.State.FAILED
    assert "outside the model folders" in job.message
    assert not Artifact.objects.exists()


@pytest.mark.parametrize(
    "source", ["ftp://host/a.gguf", "https://127.0.0.1/a.gguf", "pypi:..", "hf:a"]
)
def test_what_cannot_be_pulled_fails_with_a_sentence(running, source):
    job = ended(ask(source))
    assert job.state == Job.State.FAILED
    assert job.message.endswith(".")


def test_it_can_be_cancelled(running, monkeypatch):
    begun = slow_pull(monkeypatch)
    job = ask("hf:a/b")
    assert begun.wait(WAIT_S)
    services.job_request_cancel(job.pk, actor="test")
    assert ended(job).state == Job.State.CANCELED


def test_a_bug_in_one_pull_does_not_end_the_others(running, folder, monkeypatch, caplog):
    monkeypatch.setattr(pull_jobs, "pull_and_register", lambda *args: 1 / 0)
    job = ended(ask("hf:a/b"))
    assert (job.state, "bug" in job.message) == (Job.State.FAILED, True)
    assert ended(ask(write_tiny_gguf(folder / "tiny.gguf"))).state == Job.State.DONE


def test_a_database_that_cannot_hear_progress_ends_no_pull(running, folder, monkeypatch, caplog):
    def refuse(*args):
        raise OperationalError("database is locked")

    monkeypatch.setattr(services, "job_progress", refuse)
    assert ended(ask(write_tiny_gguf(folder / "tiny.gguf"))).state == Job.State.DONE
    assert "cannot be recorded" in caplog.text


def test_a_stop_leaves_the_job_to_the_next_start(running, monkeypatch):
    begun = slow_pull(monkeypatch)
    job = ask("hf:a/b")
    assert begun.wait(WAIT_S)
    running.stop()
    running.join(WAIT_S)
    job.refresh_from_db()
    assert job.state == Job.State.RUNNING
    services.pulls_reset_at_boot()
    assert ended(job).state == Job.State.FAILED
