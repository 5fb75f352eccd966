"""Who may run: the queue, the slots, the pages, and the rows of the next step.

Strictly first come, first served, so that a large request is never starved by small ones. Pages are
taken as a sequence grows; when none is left, the youngest gives up its own and is computed again
later, so the oldest always gets on. Whoever sits is older than whoever waits. Full pages are named
and outlive their sequence, and whoever begins with the same tokens goes on from there. A sequence
whose reader is behind is parked as soon as somebody wants its slot or pages, and returns like one
preempted. Knows no thread, no stream and no array; the worker's lock guards it.

Where a step may be in flight while the next is planned, a sequence is in one of them at most, and keeps
slot and pages until the step is over, unless it ends. Then others may have its pages at once: steps read
and write in the order they were started.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.backend import PAGE_LEN
from inference.engine.admission import Admission
from inference.engine.config import pages_for
from inference.engine.errors import MemoryPressure, QueueFull
from inference.engine.page_pool import PagePool
from inference.engine.pressure import Pressure, no_pressure
from inference.engine.sequence import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from inference.engine.config import EngineConfig
    from inference.engine.pressure import PressureReading
    from inference.engine.sequence import Sequence
    from inference.engine.stats import WorkerCounts


# Tokens that a reader has not taken. Behind: a second or two of a stream. The most: with 20 logprobs each
# some 400 KiB.
BEHIND_UNREAD = 64
MAX_UNREAD = 1024
MAX_PARKED = (
    256  # each has a connection with what waits in it; together they must not fill the host
)


@dataclass(frozen=True, eq=False)
class StepPlan:
    """One step: a row of each decoding sequence, then rows [start, end) of one prompt."""

    decodes: tuple[Sequence, ...]
    prompt: Sequence | None = None
    start: int = 0
    end: int = 0

    @property
    def ends_prompt(self) -> bool:
        return self.prompt is not None and self.end == self.prompt.prefill_len

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        return self.decodes if self.prompt is None else (*self.decodes, self.prompt)

    @property
    def wanting_logits(self) -> tuple[Sequence, ...]:
        """In the order of their rows."""
        if self.prompt is not None and self.ends_prompt:
            return (*self.decodes, self.prompt)
        return self.decodes


class Scheduler:
    def __init__(
        self,
        config: EngineConfig,
        counts: WorkerCounts,
        pressure: PressureReading = no_pressure,
        clock: Callable[[], float] = time.monotonic,
        num_in_flight: int = 1,
    ) -> None:
        """num_in_flight: steps that share the decoding sequences among them."""
        self._config, self._counts, self._pressure = config, counts, pressure
        self._clock, self._num_in_flight = clock, num_in_flight
        self._queue: deque[Sequence] = deque()  # the preempted first
        self._parked: list[Sequence] = []  # without a slot until their readers catch up
        self._seated: list[Sequence] = []  # oldest first
        self._prompts: deque[Sequence] = deque()  # those of the seated in PREFILL, oldest first
        self._free_slots = list(range(config.num_slots))  # a heap: the lowest first
        self.pages = PagePool(config.num_pages)
        # Good until somebody comes, goes, pauses or needs a page.
        self._lasting: StepPlan | None = None

    @property
    def num_queued(self) -> int:
        """Wanting a slot, those preempted included."""
        return len(self._queue)

    @property
    def num_paused(self) -> int:
        """Getting no rows until their readers read, in a slot or parked."""
        return len(self._parked) + sum(s.is_paused for s in self._seated)

    @property
    def num_slots_used(self) -> int:
        return len(self._seated)

    @property
    def is_idle(self) -> bool:
        """Nothing in a slot. Then only memory pressure keeps anything in the queue."""
        return not self._seated

    def live(self) -> list[Sequence]:
        """Every sequence that is not finished."""
        return [*self._seated, *self._queue, *self._parked]

    def add(self, sequence: Sequence) -> None:
        """Give a slot or a place in the queue.

        Raises: QueueFull, MemoryPressure.
        """
        sequence.admission = Admission(
            num_pages_at_most=pages_for(sequence.max_len),
            num_pages_free=self.pages.num_available(),
            num_ahead=len(self._queue),
            host_bytes=sequence.request.host_bytes,
            pressure=self._pressure(),
        )
        if not self._queue and self._may_enter(sequence) and self._fits(sequence):
            self._seat(sequence)
        else:
            self._check_queue()
            self._queue.append(sequence)
            self._lasting = None

    def check_place(self) -> None:
        """Refuse what would be refused whatever it asks. Raises: QueueFull, MemoryPressure."""
        if self._queue:
            self._check_queue()

    def _check_queue(self) -> None:
        # The place of one that may be parked is as good as free, once its step is over.
        num_places = self._config.queue_depth + len(self._parkable())
        if sum(not s.was_preempted for s in self._queue) < num_places:
            return
        if self._pressure() is Pressure.CRITICAL:
            raise MemoryPressure(self._config.queue_depth)
        raise QueueFull(self._config.queue_depth)

    def remove(self, sequence: Sequence) -> None:
        """The sequence is finished: free what it holds, and let the queue move up."""
        if sequence.state is State.WAITING:
            (self._parked if sequence.is_parked else self._queue).remove(sequence)
        else:
            self._unseat(sequence)
        sequence.leave()
        self._move_up()

    def expired(self, now_s: float) -> list[Sequence]:
        """Who has waited longer than allowed for a first slot, oldest first."""
        latest = now_s - self._config.queue_wait_s
        return [s for s in self._queue if s.queued_at_s <= latest and not s.was_preempted]

    def unread(self, sequence: Sequence, num_tokens: int) -> None:
        """So many of its tokens has its reader not taken by now. A parked one that was read moves up.

        It stands after those preempted and before those who never sat.
        """
        if sequence.state is State.FINISHED:
            return
        if num_tokens < BEHIND_UNREAD and not sequence.is_behind:
            return  # and so not parked or paused
        self._lasting = None
        if num_tokens >= BEHIND_UNREAD:
            sequence.is_behind = True
        elif num_tokens <= BEHIND_UNREAD // 2:
            sequence.is_behind = False
            if sequence.is_parked:
                sequence.is_parked = False
                self._parked.remove(sequence)
                self._queue.insert(sum(s.was_preempted for s in self._queue), sequence)
        if num_tokens >= MAX_UNREAD:
            sequence.is_paused = True
        elif num_tokens <= MAX_UNREAD // 2:
            sequence.is_paused = False

    def plan(self, in_flight: Collection[Sequence] = ()) -> StepPlan | None:
        """The next step, without those `in_flight`; None when there is nothing to do."""
        lasting = self._lasting
        if lasting is not None and not any(s.needs_page for s in lasting.decodes):
            return lasting
        self._move_up()
        while self._queue and self._may_enter(self._queue[0]) and self._park_one(in_flight):
            self._move_up()
        self._grow(in_flight)
        decodes = tuple([s for s in self._seated if s.is_decoding])
        if self._num_in_flight > 1:
            decodes = self._share(decodes, in_flight)
        if not self._prompts or self._prompts[0] in in_flight:
            plan = StepPlan(decodes) if decodes else None
            if self._num_in_flight == 1 and not self._queue:
                self._lasting = plan
            return plan
        prompt = self._prompts[0]
        self._resume(prompt)  # again: what was computed since it took its slot may be of use
        end = min(prompt.num_computed + self._config.chunk_len, prompt.prefill_len)
        return StepPlan(decodes, prompt, prompt.num_computed, end)

    def _share(
        self, decoding: tuple[Sequence, ...], in_flight: Collection[Sequence]
    ) -> tuple[Sequence, ...]:
        """Those of one step, as many as the others get: dies that follow each other are equally busy."""
        ready = [s for s in decoding if s not in in_flight and not s.needs_page]
        return tuple(ready[: -(-len(decoding) // self._num_in_flight)])

    def prefilled(self, sequence: Sequence, num_computed: int) -> None:
        """A chunk was computed; after the last one the next prompt has its turn."""
        sequence.advance_prefill(num_computed)
        self._publish(sequence)
        self._lasting = None
        if sequence.state is State.DECODE:
            self._prompts.remove(sequence)
            if self._is_cached(sequence) and sequence.num_output == 0:
                self._counts.add_lookup(is_hit=sequence.num_cached > 0)

    def _move_up(self) -> None:
        while self._queue and self._may_enter(self._queue[0]) and self._fits(self._queue[0]):
            self._seat(self._queue.popleft())

    def _may_enter(self, sequence: Sequence) -> bool:
        """Under critical memory pressure nobody new is let in; the preempted were let in before."""
        needed_bytes = sequence.request.host_bytes
        return sequence.was_preempted or self._pressure(needed_bytes) is not Pressure.CRITICAL

    def _fits(self, sequence: Sequence) -> bool:
        """A slot and pages for what is known, with room to grow: without it, it would be preempted soon.

        While its prompt is computed, each older sequence may take a page every PAGE_LEN steps; it
        will want a page of its own after that. Alone it needs no room but its own.
        """
        if not self._free_slots:
            return False
        known = self._find_known(sequence)
        num_steps = -(-(sequence.num_ids - len(known) * PAGE_LEN) // self._config.chunk_len)
        growth = sum(not s.is_paused for s in self._seated) * pages_for(num_steps)
        wanted = sequence.num_pages_wanted - len(known)
        return wanted + growth <= self.pages.num_available(besides=known)

    def _seat(self, sequence: Sequence) -> None:
        sequence.enter(heapq.heappop(self._free_slots), self._clock())
        self._resume(sequence)
        sequence.pages += self.pages.take(pages_for(sequence.num_ids) - len(sequence.pages))
        self._seated.append(sequence)
        self._prompts.append(sequence)
        self._lasting = None

    def _unseat(self, sequence: Sequence) -> None:
        self._lasting = None
        heapq.heappush(self._free_slots, sequence.slot)
        self._seated.remove(sequence)
        if sequence.state is State.PREFILL:
            self._prompts.remove(sequence)
        self._publish(sequence)
        self.pages.give_back(sequence.pages)

    def _find_known(self, sequence: Sequence) -> list[int]:
        """Pages that hold the next known tokens, but for the last: its row gives the logits."""
        if not self._is_cached(sequence):
            return []
        start, end = sequence.num_computed // PAGE_LEN, (sequence.num_ids - 1) // PAGE_LEN
        return self.pages.find(sequence.page_names()[start:end])

    def _resume(self, sequence: Sequence) -> None:
        known = self._find_known(sequence)
        if known:
            self.pages.share(known)
            num_cached = sequence.num_cached
            self.pages.give_back(sequence.resume(known))
            self._counts.num_cached_tokens += sequence.num_cached - num_cached

    def _publish(self, sequence: Sequence) -> None:
        """Let others use the pages that are full by now."""
        num_full = sequence.num_computed // PAGE_LEN
        if self._is_cached(sequence) and num_full > sequence.num_published:
            names = sequence.page_names()
            for index in range(sequence.num_published, num_full):
                self.pages.publish(sequence.pages[index], names[index])
            sequence.num_published = num_full

    def _is_cached(self, sequence: Sequence) -> bool:
        return self._config.prefix_cache and sequence.request.use_prefix_cache

    def _grow(self, in_flight: Collection[Sequence]) -> None:
        """A page for every decoding sequence that starts one, oldest first."""
        for sequence in [s for s in self._seated if s.needs_page]:
            while sequence.is_decoding and sequence.needs_page and sequence not in in_flight:
                if self.pages.num_available() == 0:
                    if self._yield_pages(in_flight):
                        continue
                    if in_flight:
                        break  # it has a row once the youngest is back, and can give way
                self._publish(sequence)
                sequence.pages += self.pages.take(1)

    def _yield_pages(self, in_flight: Collection[Sequence]) -> bool:
        """Somebody gives up what it holds: one that is behind, else the youngest.

        Nobody does where one is alone, or the youngest in flight: an older one does not give way to it.
        """
        if self._park_one(in_flight):
            return True
        youngest = self._seated[-1]
        if len(self._seated) == 1 or youngest in in_flight:
            return False
        self._unseat(youngest)
        youngest.preempt()
        youngest.num_preempted += 1
        self._queue.appendleft(youngest)
        self._counts.num_preempted += 1
        return True

    def _park_one(self, in_flight: Collection[Sequence]) -> bool:
        """The youngest of those in a slot whose readers are behind waits without it, if there is one."""
        parkable = [s for s in self._parkable() if s not in in_flight]
        if not parkable:
            return False
        parked = parkable[-1]
        self._unseat(parked)
        parked.preempt()
        parked.is_parked = True
        parked.num_parked += 1
        self._parked.append(parked)
        self._counts.num_parked += 1
        return True

    def _parkable(self) -> list[Sequence]:
        """Those in a slot whose readers are behind, oldest first, as many as may be parked besides."""
        behind = [s for s in self._seated if s.is_behind and s.state is State.DECODE]
        return behind[-num_left:] if (num_left := MAX_PARKED - len(self._parked)) > 0 else []
