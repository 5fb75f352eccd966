"""Workers over the fake executor, closed at the end of each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from inference.engine.worker import Worker
from tests.fakes.executor import FakeExecutor, Gate
from tests.inference.engine.driving import CONFIG, VOCAB_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def make_worker() -> Iterator[Callable[..., tuple[Worker, FakeExecutor]]]:
    """Make a worker (not started) and its executor; other arguments are the fake's."""
    made: list[tuple[Worker, FakeExecutor]] = []

    def make(config=CONFIG, *, worker_args=None, **fake_args):
        executor = FakeExecutor(VOCAB_SIZE, config, **fake_args)
        worker = Worker(executor, VOCAB_SIZE, config, "test", **(worker_args or {}))
        made.append((worker, executor))
        return worker, executor

    yield make
    for worker, executor in made:
        if isinstance(executor.before_step, Gate):
            executor.before_step.open()
        worker.close("The test is over.")
