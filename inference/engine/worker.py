"""One replica's worker: the thread that runs its steps, and the door through which requests enter.

Owns the lock that guards queue, slots, pages and streams; it is held for bookkeeping only, never in
a step or while sampling, so that submitting, reading and aborting do not wait for the model. Where the
executor takes several steps it starts the next one before it waits for the oldest. Knows no text, no HTTP
and no event loop of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel.backend import PAGE_LEN
from inference.engine.admission import check_memory, check_request
from inference.engine.batch import BatchArrays
from inference.engine.choosing import choosing_of
from inference.engine.errors import (
    MemoryPressure,
    NotEnoughMemory,
    QueueFull,
    QueueTimeout,
    ReplicaClosed,
    SamplingFailed,
)
from inference.engine.params import Finish, FinishReason
from inference.engine.pressure import no_pressure
from inference.engine.scheduler import Scheduler
from inference.engine.sequence import Sequence, State
from inference.engine.stats import WorkerCounts, WorkerStats
from inference.engine.step_log import StepTiming
from inference.engine.stream import StreamFeed, TokenStream, wake

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel.backend import Executor
    from inference.engine.config import EngineConfig
    from inference.engine.errors import EngineError
    from inference.engine.params import SequenceRequest, Token
    from inference.engine.pressure import PressureReading
    from inference.engine.scheduler import StepPlan
    from inference.engine.stream import Waiter

logger = logging.getLogger(__name__)

# How often an idle replica looks at those it has: kept out by memory pressure, paused, or given up since.
_HELD_CHECK_S = 0.25
_FAILED = "The model failed while it was generating. Please retry the request."


@dataclass(eq=False)
class _StepInFlight:
    """Started, not finished. start_s: in the executor's `start`; the rest of its time is in `finish`."""

    plan: StepPlan
    plan_s: float = 0.0
    start_s: float = 0.0


class Worker:
    """Runs one executor. The caller keeps the executor and closes it after `close` returned."""

    def __init__(
        self,
        executor: Executor,
        vocab_size: int,
        config: EngineConfig,
        name: str,
        *,
        on_failure: Callable[[str], None] | None = None,
        on_step: Callable[[StepTiming], None] | None = None,
        pressure: PressureReading = no_pressure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_failure` is called once with the reason, on the worker thread, after a step raised.

        `on_step` is called on the worker thread after each step. `pressure` is asked whenever someone
        may be let in, under the lock: it must know the answer.
        """
        self._executor, self._vocab_size, self._config = executor, vocab_size, config
        self._name, self._on_failure, self._clock = name, on_failure, clock
        self._on_step, self._pressure = on_step, pressure
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)  # something to do for the worker thread
        self._arrived = threading.Condition(self._lock)  # something to read in some stream
        self._counts = WorkerCounts()
        self._scheduler = self._new_scheduler()
        self._arrays = BatchArrays(config)
        self._choosing = choosing_of(executor, vocab_size, config.max_logit_rows)
        self._given_up: deque[tuple[Sequence, int]] = deque()  # and tokens of it read in vain
        self._in_flight: deque[_StepInFlight] = deque()  # oldest first
        self._waiters: list[Waiter] = []  # readers to wake before the next step
        self._is_told = False  # something came for readers who have not been woken
        self._closed_why: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"worker-{name}", daemon=True)

    @property
    def num_slots(self) -> int:
        return self._config.num_slots

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: SequenceRequest) -> TokenStream:
        """Accept a sequence. From any thread; does not wait.

        Raises: EmptyPrompt, NoOutputWanted, ContextExceeded, TokenOutOfVocabulary, QueueFull,
        MemoryPressure, NotEnoughMemory, ReplicaClosed.
        """
        check_request(request, self._vocab_size, self._config)
        sequence = Sequence(request, StreamFeed(), self._clock())
        if self._config.prefix_cache and request.use_prefix_cache:
            sequence.page_names()  # here, since hashing a long prompt would hold the lock
        with self._lock:
            if self._closed_why is not None:
                raise ReplicaClosed(self._closed_why)
            try:
                check_memory(request, self._pressure)
                self._scheduler.add(sequence)
            except (QueueFull, MemoryPressure, NotEnoughMemory):
                self._counts.num_refused += 1
                raise
            self._counts.num_accepted += 1
            self._work.notify()
        return TokenStream(sequence, self._arrived, self._give_up, self._taken)

    def check_place(self) -> None:
        """Refuse before a prompt is rendered what would be refused after. From any thread; does not wait.

        Raises: QueueFull, MemoryPressure.
        """
        with self._lock:
            try:
                self._scheduler.check_place()
            except (QueueFull, MemoryPressure):
                self._counts.num_refused += 1
                raise

    def close(self, message: str) -> None:
        """End every sequence with ERROR and `message`, then stop; waits for steps in flight.

        Readers of those still in the queue get ReplicaClosed.

        May be called more than once, and from `on_failure`.
        """
        self.end(message)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def end(self, message: str) -> None:
        """As `close`, but waits for nothing."""
        self._end_all("it was unloaded", message)

    def stats(self) -> WorkerStats:
        with self._lock:
            pages = self._scheduler.pages
            return WorkerStats(
                num_slots=self._config.num_slots,
                num_slots_used=self._scheduler.num_slots_used,
                num_queued=self._scheduler.num_queued,
                num_paused=self._scheduler.num_paused,
                num_pages=pages.num_pages,
                num_pages_used=pages.num_used,
                num_pages_cached=pages.num_cached,
                num_pages_evicted=pages.num_evicted,
                pressure=self._pressure(),
                page_len=PAGE_LEN,
                counts=replace(self._counts),
            )

    def _run(self) -> None:
        try:
            self._run_steps()
        except Exception as error:  # the thread's boundary: nobody may be left waiting
            logger.error("worker %s failed", self._name, exc_info=error)
            self._end_all("it failed", _FAILED)
            if self._on_failure is not None:
                self._on_failure(str(error) or type(error).__name__)

    def _end_all(self, why: str, message: str) -> None:
        """Accept nothing more, and leave nobody waiting."""
        with self._lock:
            if self._closed_why is None:
                self._closed_why = why
            for sequence in self._scheduler.live():
                # Who has only waited is refused, like who comes now; the others are told.
                refused = sequence.state is State.WAITING and not sequence.was_preempted
                error = ReplicaClosed(self._closed_why) if refused else None
                sequence.leave()
                self._tell(sequence, Finish(FinishReason.ERROR, message), error)
            # Fresh books: after a failure the old ones may be what is wrong.
            self._scheduler = self._new_scheduler()
            self._work.notify()
            waiters = self._take_waiters()
        wake(waiters)

    def _run_steps(self) -> None:
        num_in_flight = self._executor.num_in_flight
        while True:
            planning_at_s = self._clock()
            with self._lock:
                if self._given_up:
                    self._abort_given_up()
                if self._scheduler.num_queued:
                    self._end_expired(planning_at_s)
                if self._closed_why is not None and not self._in_flight:
                    return
                plan = self._plan()
                if plan is None and not self._in_flight and not self._is_told:
                    self._work.wait(_HELD_CHECK_S if self._scheduler.live() else None)
                    continue
                batch = None
                if plan is not None:
                    batch = self._arrays.fill(plan)
                    self._in_flight.append(_StepInFlight(plan))
                waiters = self._take_waiters()
            # Woken here, readers get the GIL while the step below runs without it.
            wake(waiters)
            if batch is not None:
                step, started_s = self._in_flight[-1], self._clock()
                self._choosing.start(batch, step.plan.wanting_logits)
                step.plan_s, step.start_s = started_s - planning_at_s, self._clock() - started_s
            if len(self._in_flight) == num_in_flight or (batch is None and self._in_flight):
                self._finish_step(self._in_flight[0])

    def _finish_step(self, step: _StepInFlight) -> None:
        """Wait for the oldest step in flight and take its tokens."""
        plan = step.plan
        waiting_at_s = self._clock()
        self._choosing.wait()
        finished_s = self._clock()
        step_s = step.start_s + finished_s - waiting_at_s
        tokens = self._choosing.tokens()
        sampled_s = self._clock()
        with self._lock:
            self._in_flight.popleft()
            self._commit(plan, tokens, step_s, sampled_s)
        if self._on_step is not None:
            with self._lock:
                num_queued = self._scheduler.num_queued
                num_pages = self._scheduler.pages.num_available()
            self._on_step(
                StepTiming(
                    number=self._counts.num_steps,
                    num_decodes=len(plan.decodes),
                    num_prompt_tokens=plan.end - plan.start,
                    num_queued=num_queued,
                    num_pages_available=num_pages,
                    plan_s=step.plan_s,
                    step_s=step_s,
                    sample_s=sampled_s - finished_s,
                    commit_s=self._clock() - sampled_s,
                )
            )

    def _give_up(self, sequence: Sequence, num_unused: int) -> None:
        """Abort, from any thread.

        A stream may be collected on any thread at any point, also on one that holds the lock, so
        this never waits for the lock. Who finds it taken leaves the work to the worker thread, which looks
        before each step, and now and then as long as a sequence lives.
        """
        self._given_up.append((sequence, num_unused))
        if self._lock.acquire(blocking=False):
            try:
                self._abort_given_up()
                waiters = self._take_waiters()
            finally:
                self._lock.release()
            wake(waiters)

    def _new_scheduler(self) -> Scheduler:
        num_in_flight = self._executor.num_in_flight
        return Scheduler(self._config, self._counts, self._pressure, self._clock, num_in_flight)

    # All below are called under the lock.

    def _plan(self) -> StepPlan | None:
        if self._closed_why is not None:
            return None
        in_flight = [s for step in self._in_flight for s in step.plan.sequences]
        return self._scheduler.plan(set(in_flight) if in_flight else ())

    def _taken(self, sequence: Sequence) -> None:
        self._scheduler.unread(sequence, len(sequence.feed.unread))
        self._work.notify()

    def _commit(
        self, plan: StepPlan, tokens: list[Token | SamplingFailed], step_s: float, now_s: float
    ) -> None:
        """Take a step's tokens, except those of sequences that were ended meanwhile."""
        counts = self._counts
        counts.num_steps += 1
        counts.step_s += step_s
        if plan.prompt is not None:
            counts.num_prompt_tokens += plan.end - plan.start
            if plan.prompt.state is not State.FINISHED:
                self._scheduler.prefilled(plan.prompt, plan.end)
        for sequence, token in zip(plan.wanting_logits, tokens, strict=True):
            if sequence.state is State.FINISHED:
                continue
            if isinstance(token, SamplingFailed):
                self._end(sequence, Finish(FinishReason.ERROR, str(token)))
                continue
            counts.num_output_tokens += 1
            finish, feed = sequence.append(token.id, now_s), sequence.feed
            feed.put(token)
            if finish is None:
                self._scheduler.unread(sequence, len(feed.unread))
                self._waiters += feed.take_waiter()
                self._is_told = True
            else:
                self._end(sequence, finish)

    def _abort_given_up(self) -> None:
        while self._given_up:
            sequence, num_surplus = self._given_up.popleft()
            num_surplus += sequence.feed.drop_unread()
            if sequence.state is not State.FINISHED:
                if any(sequence in step.plan.wanting_logits for step in self._in_flight):
                    # Its token is on its way, and nobody will take it.
                    self._counts.num_output_tokens += 1
                    num_surplus += 1
                self._end(sequence, Finish(FinishReason.ABORTED))
            sequence.num_surplus += num_surplus
            self._counts.num_surplus_tokens += num_surplus

    def _end_expired(self, now_s: float) -> None:
        for sequence in self._scheduler.expired(now_s):
            error = QueueTimeout(now_s - sequence.queued_at_s)
            self._end(sequence, Finish(FinishReason.ERROR, str(error)), error)

    def _end(self, sequence: Sequence, finish: Finish, error: EngineError | None = None) -> None:
        """A sequence finishes: its slot and pages are free for the queue, and its reader knows."""
        self._scheduler.remove(sequence)
        self._tell(sequence, finish, error)

    def _tell(self, sequence: Sequence, finish: Finish, error: EngineError | None = None) -> None:
        sequence.feed.end(finish, error)
        self._counts.add_ending(finish, error)
        self._waiters += sequence.feed.take_waiter()
        self._is_told = True

    def _take_waiters(self) -> list[Waiter]:
        """Readers to wake once the lock is free; those in plain threads wake when it is."""
        if self._is_told:
            self._arrived.notify_all()
        waiters, self._waiters, self._is_told = self._waiters, [], False
        return waiters
