"""From a started step to its tokens: by logits that the executor hands out, or by asking where they lie.

Owns which of the two an executor takes, and what must be remembered between a step's start and its end.
Steps end in the order in which they were started. Knows no queue and no pages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from accel.backend import RankingExecutor
from accel.survey import SurveyingExecutor
from inference.engine.sampler import Sampler
from inference.engine.survey_sampler import SurveySampler

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as Several

    import numpy as np
    import numpy.typing as npt

    from accel.backend import Executor, StepBatch
    from accel.survey import Finding
    from inference.engine.errors import SamplingFailed
    from inference.engine.params import Token
    from inference.engine.sequence import Sequence
    from inference.engine.survey_sampler import Asked


class Choosing(Protocol):
    """Steps of one executor and the choice of their tokens."""

    def start(self, batch: StepBatch, sequences: Several[Sequence]) -> None:
        """Start a step whose logits are wanted for these sequences, in their order. Raises: AccelError."""
        ...

    def wait(self) -> None:
        """Until the oldest step is done. Raises: AccelError."""
        ...

    def tokens(self) -> list[Token | SamplingFailed]:
        """Of the step waited for: one for each of its sequences, or why there is none. Raises: AccelError."""
        ...


def choosing_of(executor: Executor, vocab_size: int, max_rows: int) -> Choosing:
    sampler = Sampler(vocab_size, max_rows)
    if isinstance(executor, SurveyingExecutor):
        return _ByAnswers(executor, SurveySampler(vocab_size, sampler))
    best = executor.best if isinstance(executor, RankingExecutor) else None
    return _ByLogits(executor, sampler, best)


class _ByLogits:
    _logits: npt.NDArray[np.float32]

    def __init__(
        self,
        executor: Executor,
        sampler: Sampler,
        best: Callable[[], list[tuple[float, int]]] | None,
    ) -> None:
        self._executor, self._sampler, self._best = executor, sampler, best
        self._started: deque[Several[Sequence]] = deque()

    def start(self, batch: StepBatch, sequences: Several[Sequence]) -> None:
        self._started.append(sequences)
        self._executor.start(batch)

    def wait(self) -> None:
        self._logits = self._executor.finish()

    def tokens(self) -> list[Token | SamplingFailed]:
        sequences = self._started.popleft()
        if not sequences:
            return []
        best = None if self._best is None else self._best()
        return self._sampler.choose(self._logits, sequences, best=best)


class _ByAnswers:
    _findings: list[Finding]

    def __init__(self, executor: SurveyingExecutor, sampler: SurveySampler) -> None:
        self._executor, self._sampler = executor, sampler
        self._started: deque[Asked] = deque()

    def start(self, batch: StepBatch, sequences: Several[Sequence]) -> None:
        asked = self._sampler.ask(sequences)
        self._started.append(asked)
        self._executor.start_surveyed(batch, asked.surveys)

    def wait(self) -> None:
        self._findings = self._executor.finish_surveyed()

    def tokens(self) -> list[Token | SamplingFailed]:
        return self._sampler.choose(self._started.popleft(), self._findings, self._executor)
