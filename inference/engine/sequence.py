"""One sequence: the frozen request and its mutable progress through the states.

WAITING -> PREFILL -> DECODE -> FINISHED; FINISHED may follow any state, and WAITING follows when it
gave up its slot. Knows no queue, no thread, no clock and no backend; the worker's lock guards `state`,
`slot`, `pages` and how far its reader is, the rest is the worker thread's.
"""

from __future__ import annotations

import itertools
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import PAGE_LEN
from inference.engine.config import pages_for
from inference.engine.errors import BrokenInvariant
from inference.engine.page_names import next_names, root_name
from inference.engine.params import Finish, FinishReason, Progress
from inference.engine.sampler_state import SamplerState

if TYPE_CHECKING:
    import numpy.typing as npt

    from inference.engine.admission import Admission
    from inference.engine.params import SequenceRequest
    from inference.engine.stream import StreamFeed

_page_lists = itertools.count(1)


class State(Enum):
    WAITING = "waiting"  # without a slot: in the queue, or parked
    PREFILL = "prefill"  # in a slot, known tokens not yet computed
    DECODE = "decode"  # in a slot, one row a step
    FINISHED = "finished"


class Sequence:
    """`ids[:num_ids]` are the known tokens, `num_computed` of them have their KV written.

    A preempted sequence loses its pages and keeps everything else: once it sits again, prompt and
    output so far are computed like a prompt, and sampling goes on where it was. One whose reader is
    behind may be parked, which is the same until the reader has caught up; far behind, it is paused: it
    has no rows.
    """

    def __init__(self, request: SequenceRequest, feed: StreamFeed, queued_at_s: float) -> None:
        self.request, self.feed, self.queued_at_s = request, feed, queued_at_s
        self.num_prompt = len(request.prompt_ids)
        self.max_len = self.num_prompt + request.max_tokens
        self.ids: npt.NDArray[np.int32] = np.empty(self.max_len, np.int32)
        self.ids[: self.num_prompt] = request.prompt_ids
        self.num_ids = self.num_prompt
        self.num_computed = 0
        self.last_id = request.prompt_ids[-1]
        self.sampler_state = SamplerState(request.sampling)
        self.state = State.WAITING
        self.was_preempted = False  # or parked: it has been let in, and must wait for a slot again
        self.is_behind = self.is_paused = self.is_parked = False
        self.admission: Admission | None = None  # the numbers it was accepted with
        self.prefill_len = 0  # known tokens when it took the slot
        self.num_cached = 0  # prompt tokens that others had computed
        self._slot: int | None = None
        self.pages: list[int] = []
        self.page_list = 0  # a number never used twice, new when pages are replaced, not added to
        self.num_published = 0  # full pages that were offered to others
        self._names: list[bytes] = []
        self._entered_at_s: float | None = None
        self._first_token_at_s: float | None = None
        self._last_token_at_s: float | None = None
        self.num_chunks = self.num_preempted = self.num_parked = self.num_surplus = 0

    @property
    def num_pages_wanted(self) -> int:
        """Pages of the known tokens and one to grow into, as far as it may grow."""
        return pages_for(min(self.num_ids + PAGE_LEN, self.max_len))

    @property
    def num_output(self) -> int:
        return self.num_ids - self.num_prompt

    @property
    def slot(self) -> int:
        """Where it sits, from PREFILL to the end of DECODE."""
        if self._slot is None:
            raise BrokenInvariant(f"a {self.state.value} sequence was asked for its slot")
        return self._slot

    @property
    def is_decoding(self) -> bool:
        """It has a row in the next step."""
        return self.state is State.DECODE and not self.is_paused

    @property
    def needs_page(self) -> bool:
        """The row of the newest token has no page yet."""
        return self.num_ids > PAGE_LEN * len(self.pages)

    @property
    def progress(self) -> Progress:
        return Progress(
            _between(self.queued_at_s, self._entered_at_s),
            _between(self._entered_at_s, self._first_token_at_s),
            _between(self._first_token_at_s, self._last_token_at_s),
            self.num_chunks,
            self.num_preempted,
            self.num_parked,
            self.num_surplus,
        )

    def page_names(self) -> list[bytes]:
        """Names of all full pages of the known tokens. The first call hashes the whole prompt."""
        parent = self._names[-1] if self._names else root_name(self.request.tenant)
        unnamed = self.ids[len(self._names) * PAGE_LEN : self.num_ids]
        self._names.extend(next_names(parent, unnamed))
        return self._names

    def enter(self, slot: int, now_s: float) -> None:
        self._must_be(State.WAITING)
        self._slot, self.state = slot, State.PREFILL
        if self._entered_at_s is None:
            self._entered_at_s = now_s
        self.page_list, self.prefill_len = next(_page_lists), self.num_ids

    def resume(self, pages: list[int]) -> list[int]:
        """Go on after `pages`, which hold what comes next; the pages of its own that they replace.

        They end before the last known token, whose row gives the logits.
        """
        start = self.num_computed // PAGE_LEN
        end = start + len(pages)
        replaced, self.pages[start:end] = self.pages[start:end], pages
        if not self.was_preempted:
            self.num_cached += end * PAGE_LEN - self.num_computed
        self.page_list, self.num_computed, self.num_published = (
            next(_page_lists),
            end * PAGE_LEN,
            end,
        )
        return replaced

    def preempt(self) -> None:
        """Give up slot and pages, to be computed again later."""
        self._slot, self.pages, self.state = None, [], State.WAITING
        self.num_computed, self.num_published, self.was_preempted = 0, 0, True

    def leave(self) -> None:
        self._slot, self.pages, self.state = None, [], State.FINISHED
        self.is_behind = self.is_paused = self.is_parked = False

    def advance_prefill(self, num_computed: int) -> None:
        """Positions below num_computed are done; the last known one starts decoding."""
        self._must_be(State.PREFILL)
        self.num_chunks += 1
        self.num_computed = num_computed
        if num_computed == self.prefill_len:
            self.state = State.DECODE

    def append(self, token_id: int, now_s: float) -> Finish | None:
        """Take a sampled token; the finish if it was the last."""
        self._must_be(State.DECODE)
        if self._first_token_at_s is None:
            self._first_token_at_s = now_s
        self._last_token_at_s = now_s
        num_ids = self.num_ids
        self.ids[num_ids] = self.last_id = token_id
        self.num_computed, self.num_ids = num_ids, num_ids + 1
        self.sampler_state.count(token_id)
        if token_id in self.request.end_ids:
            return Finish(FinishReason.END)
        if self.num_ids == self.max_len:
            return Finish(FinishReason.LENGTH)
        return None

    def _must_be(self, state: State) -> None:
        if self.state is not state:
            raise BrokenInvariant(
                f"a {self.state.value} sequence was taken for a {state.value} one"
            )


def _between(start_s: float | None, end_s: float | None) -> float | None:
    return None if start_s is None or end_s is None else end_s - start_s
