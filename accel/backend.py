"""The backend protocol: what every backend takes and gives. Holds no computation.

A backend compiles a program once; the executor it returns runs steps of ragged rows. Both are used
by one thread at a time (the replica's worker).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kernels.specs.program import Program

PAGE_LEN = 32  # positions in a KV page

Progress = Callable[[str, float], None]  # phase in plain words, share done 0..1


@dataclass(frozen=True)
class Limits:
    """Sizes fixed at compile time: most rows of a step, and how many of them may want logits."""

    max_rows: int
    max_logit_rows: int
    num_slots: int
    num_pages: int
    max_pages_per_slot: int
    kv_type: str = "f16"
    num_threads: int = 1


@dataclass(frozen=True, eq=False)
class StepBatch:
    """The rows of one step. Rows of one slot are neighbours, in ascending position.

    Shapes: tokens, positions, slots (N,) int32; logit_rows (L,) int32, ascending row indices;
    page_table (num_slots, max_pages_per_slot) int32, page numbers; entries past a slot's last page are
    unused.
    """

    tokens: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    logit_rows: npt.NDArray[np.int32]
    page_table: npt.NDArray[np.int32]


@dataclass(frozen=True)
class MemoryUse:
    weight_bytes: int
    kv_bytes: int
    buffer_bytes: int


class Executor(Protocol):
    """A compiled program with its weights, KV pages and threads.

    Several steps may be in flight, so that each die has one to work on. They read and write KV pages as if
    each began when the one started before it had ended: a page may be another sequence's in the next.
    """

    @property
    def memory(self) -> MemoryUse: ...

    @property
    def num_in_flight(self) -> int:
        """Most steps that may have been started and not finished."""
        ...

    def start(self, batch: StepBatch) -> None:
        """Put a step in flight, or run it. The batch's arrays may change afterwards. Raises: AccelError."""
        ...

    def finish(self) -> npt.NDArray[np.float32]:
        """Logits (L, vocab_size) of the oldest step in flight, valid until the next `start` or `finish`.

        A row's logits depend on its own sequence alone, bit for bit: never on other rows, on how a
        prompt was cut into chunks, or on the number of threads. Raises: AccelError.
        """
        ...

    def close(self) -> None:
        """Stop threads and give memory back. Safe to call twice."""
        ...


@runtime_checkable
class RankingExecutor(Executor, Protocol):
    """An executor that has looked for the likeliest tokens itself."""

    def best(self) -> list[tuple[float, int]]:
        """Of each row (L) of the step last finished: the largest logit and the lowest id that has it.

        The logit is NaN where one of the row is. Good as long as the logits.
        """
        ...


def run_step(executor: Executor, batch: StepBatch) -> npt.NDArray[np.float32]:
    """One step by itself, with none in flight: its logits, as of `Executor.finish`. Raises: AccelError."""
    executor.start(batch)
    return executor.finish()


class Backend(Protocol):
    name: str

    def compile(self, program: Program, limits: Limits, progress: Progress) -> Executor:
        """Raises: UnsupportedProgram, OutOfMemory."""
        ...
