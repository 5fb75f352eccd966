"""Pulls asked of a running server: one thread takes queued jobs in turn and says how far each is.

Owns the way from a job row to its outcome; knows no protocol, and nothing about who asked.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import close_old_connections
from django.db.utils import DatabaseError

from inference import catalogue
from inference.model.errors import ModelError
from inference.pulling import pull_and_register
from inference.sources import SourceError, parse_source
from inference.sources.errors import NoSuchFile
from inference.sources.source import LocalFile
from registry import selectors, services
from registry.errors import PathRefused, RegistryError
from registry.models import Job
from registry.notify import wanted_changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.models import Artifact

logger = logging.getLogger(__name__)

POLL_S = 2.0  # another process may ask for a pull without waking us
PROGRESS_S = 0.5  # how often a row is written, and looked at for a wish to cancel


class PullCanceled(Exception):
    """Somebody asked for the end of this pull."""


class PullStopped(Exception):
    """The server stops; what has been fetched stays for the next pull of the same source."""


class PullJobs:
    """Start once per process."""

    def __init__(self) -> None:
        self._wake, self._stopping = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)

    def start(self) -> None:
        services.pulls_reset_at_boot()
        wanted_changed.connect(self._on_wanted_changed)
        self._thread.start()

    def stop(self) -> None:
        """Give up the pull in progress at its next word. Does not wait; safe to call twice."""
        self._stopping = True
        wanted_changed.disconnect(self._on_wanted_changed)
        self._wake.set()

    def join(self, timeout_s: float) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _on_wanted_changed(self, **_: object) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                for job in selectors.pulls_to_run():
                    if not self._stopping:
                        self._carry_out(job)
            except DatabaseError:
                logger.exception("the jobs cannot be read; trying again in %s s", POLL_S)
            finally:
                close_old_connections()
            self._wake.wait(POLL_S)

    def _carry_out(self, job: Job) -> None:
        services.job_start(job.pk)
        try:
            artifact = _pull(job.subject, self._progress_writer(job.pk))
        except PullStopped:
            logger.info("%s is given up: the server stops", job)
        except PullCanceled:
            self._finish(job, Job.State.CANCELED, "Cancelled; pulling again resumes it.")
        except (SourceError, ModelError, RegistryError, OSError) as error:
            logger.warning("%s failed: %s", job, error)
            self._finish(job, Job.State.FAILED, str(error) or type(error).__name__)
        except Exception:  # the thread's boundary: a bug met by one pull must not end the others
            logger.exception("%s met a bug", job)
            self._finish(job, Job.State.FAILED, "The server met a bug; its log has the details.")
        else:
            self._finish(job, Job.State.DONE, f"{artifact.name} is here.", artifact)

    def _finish(
        self, job: Job, state: Job.State, message: str, artifact: Artifact | None = None
    ) -> None:
        """Say how it ended, however long the database takes to hear it."""
        while not self._stopping:
            try:
                services.job_finish(job.pk, state, message, artifact=artifact)
                return
            except DatabaseError:
                logger.exception("the end of %s cannot be recorded; trying again", job)
                close_old_connections()
                time.sleep(POLL_S)

    def _progress_writer(self, job_id: str) -> Callable[[int, int | None], None]:
        written = 0.0

        def progress(done: int, total: int | None) -> None:
            nonlocal written
            if self._stopping:
                raise PullStopped
            now = time.monotonic()
            if now - written < PROGRESS_S:
                return
            written = now
            whole = f" of {total / 1e6:,.1f}" if total else ""
            share = done / total if total else 0.0
            try:
                if services.job_cancel_requested(job_id):
                    raise PullCanceled
                services.job_progress(job_id, share, f"{done / 1e6:,.1f}{whole} MB")
            except DatabaseError as error:  # a bar that stands still is no reason to stop
                logger.warning("the progress of job %s cannot be recorded: %s", job_id, error)

        return progress


def _pull(text: str, progress: Callable[[int, int | None], None]) -> Artifact:
    """A local path must lie in a model folder: who asks a server need not own its host."""
    progress(0, None)
    source = parse_source(text)
    if isinstance(source, LocalFile):
        try:
            return catalogue.register_allowed_path(text)
        except PathRefused as error:
            if source.meant:
                raise NoSuchFile(text, source.meant) from error
            raise
    return pull_and_register(text, settings.MODELS_DIR, progress)
