"""One line a step for whoever tunes a replica: rows, times, and what waits. Knows no worker.

Owns the line's form: `name=value` pairs, times in milliseconds.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class StepTiming:
    """One step.

    plan_s: choosing rows and filling arrays; step_s: the model, while it was waited for; commit_s: the books.
    """

    number: int
    num_decodes: int
    num_prompt_tokens: int
    num_queued: int
    num_pages_available: int
    plan_s: float
    step_s: float
    sample_s: float
    commit_s: float


class StepLog:
    """Writes each step of one replica, named as its model is."""

    def __init__(self, served_name: str, write: Callable[[str], object]) -> None:
        self._served_name, self._write = served_name, write

    def __call__(self, timing: StepTiming) -> None:
        times = " ".join(
            f"{name}_ms={seconds * 1e3:.3f}"
            for name, seconds in (
                ("plan", timing.plan_s),
                ("step", timing.step_s),
                ("sample", timing.sample_s),
                ("commit", timing.commit_s),
            )
        )
        # One write, so that lines of several replicas do not mix. A closed or full log stops no model.
        with contextlib.suppress(OSError, ValueError):
            self._write(
                f"step={timing.number} model={self._served_name} decodes={timing.num_decodes}"
                f" prompt_tokens={timing.num_prompt_tokens} {times} queued={timing.num_queued}"
                f" pages_available={timing.num_pages_available}\n"
            )
