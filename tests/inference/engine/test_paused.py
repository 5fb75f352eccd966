"""Who is not read waits, holds nobody up, and loses nothing."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.config import EngineConfig
from inference.engine.errors import QueueFull
from inference.engine.logprobs import token_logprobs
from inference.engine.params import FinishReason, Token
from inference.engine.scheduler import BEHIND_UNREAD, MAX_UNREAD, Scheduler
from inference.engine.sequence import Sequence, State
from inference.engine.stats import WorkerCounts
from inference.engine.stream import StreamFeed
from tests.fakes.executor import greedy_continuation
from tests.inference.engine.driving import VOCAB_SIZE, read_all, request_of
from tests.inference.engine.test_scheduler import commit, run_step, sequence_of

CONFIG = EngineConfig(context_len=2048, num_pages=128, num_slots=2, chunk_len=16)


def wait_for(holds, within_s=20.0):
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def unread(worker, prompt, max_tokens, num_tokens=BEHIND_UNREAD):
    """A stream that nobody has read so many tokens of."""
    stream = worker.submit(request_of(prompt, max_tokens))
    wait_for(lambda: stream.usage.num_output_tokens >= num_tokens)
    return stream


def test_a_stream_nobody_reads_pauses_at_a_bound_and_goes_on_where_it_was(make_worker):
    worker, executor = make_worker(CONFIG)
    worker.start()
    stream = worker.submit(request_of([7], 1500))
    wait_for(lambda: worker.stats().num_paused == 1)
    assert not time.sleep(0.05)
    assert executor.num_steps == MAX_UNREAD
    assert (worker.stats().num_slots_used, stream.finish) == (1, None)
    assert read_all(stream) == greedy_continuation([7], 1500, VOCAB_SIZE)
    assert stream.finish.reason is FinishReason.LENGTH
    assert (worker.stats().num_paused, worker.stats().counts.num_parked) == (0, 0)


def test_a_paused_stream_given_up_while_the_lock_is_taken(make_worker):
    """No step follows that would notice."""
    worker, _ = make_worker(CONFIG)
    worker.start()
    stream = worker.submit(request_of([7], 1500))
    wait_for(lambda: worker.stats().num_paused == 1)
    with worker._lock:
        stream.abort()
    wait_for(lambda: worker.stats().num_slots_used == 0, within_s=5)
    assert stream.finish.reason is FinishReason.ABORTED


def test_one_that_is_behind_goes_on_while_nobody_wants_its_place(make_worker):
    worker, _ = make_worker(CONFIG)
    worker.start()
    stream = unread(worker, [7], 1000, num_tokens=1000)
    wait_for(lambda: stream.finish is not None)
    assert worker.stats().counts.num_parked == 0
    assert len(read_all(stream)) == 1000


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_its_slot_and_pages_go_to_whoever_comes_and_it_finishes_when_it_is_read(
    make_worker, prefix_cache
):
    config = EngineConfig(1024, num_pages=32, num_slots=2, chunk_len=16, prefix_cache=prefix_cache)
    worker, _ = make_worker(config)
    worker.start()
    deaf = [worker.submit(request_of([i], 900)) for i in (1, 2)]
    wait_for(lambda: all(s.usage.num_output_tokens >= BEHIND_UNREAD for s in deaf))
    others = [worker.submit(request_of([i] * 400, 500)) for i in range(3, 8)]
    for i, stream in enumerate(others, 3):
        assert read_all(stream) == greedy_continuation([i] * 400, 500, VOCAB_SIZE)
    stats = worker.stats()
    assert stats.counts.num_parked >= 2
    assert (stats.num_paused, stats.num_slots_used, stats.num_pages_used) == (2, 0, 0)
    assert [s.finish for s in deaf] == [None, None]
    for i, stream in zip((1, 2), deaf, strict=True):
        assert read_all(stream) == greedy_continuation([i], 900, VOCAB_SIZE)
        assert stream.progress.num_parked == 1
    assert worker.stats().counts.num_completed == 7


def test_one_that_sits_is_parked_when_another_wants_a_page(make_worker):
    """Growing comes before not being read; nobody is preempted for it."""
    config = EngineConfig(context_len=512, num_pages=16, num_slots=2, chunk_len=16)
    worker, _ = make_worker(config)
    worker.start()
    deaf = unread(worker, [1], 480)
    grows = worker.submit(request_of([2], 500))
    assert read_all(grows) == greedy_continuation([2], 500, VOCAB_SIZE)
    counts = worker.stats().counts
    assert (counts.num_parked, counts.num_preempted) == (1, 0)
    assert read_all(deaf) == greedy_continuation([1], 480, VOCAB_SIZE)


def test_one_at_a_time_does_not_refuse_for_the_sake_of_one_that_is_not_read(make_worker):
    config = EngineConfig(context_len=2048, num_pages=64, num_slots=1, queue_depth=0)
    worker, _ = make_worker(config)
    worker.start()
    deaf = unread(worker, [1], 2000)
    other = worker.submit(request_of([2], 20))
    with pytest.raises(QueueFull):
        worker.submit(request_of([3], 20))
    assert len(read_all(other)) == 20
    assert read_all(deaf) == greedy_continuation([1], 2000, VOCAB_SIZE)


@pytest.mark.parametrize("end", ["abort", "close"])
@pytest.mark.parametrize("is_parked", [True, False])
def test_abort_and_close_end_it(make_worker, end, is_parked):
    config = EngineConfig(context_len=2048, num_pages=64, num_slots=1)
    worker, _ = make_worker(config)
    worker.start()
    deaf = worker.submit(request_of([1], 2000))
    wait_for(lambda: worker.stats().num_paused == 1)
    if is_parked:
        read_all(worker.submit(request_of([2], 3)))
    assert worker.stats().num_slots_used == (0 if is_parked else 1)
    if end == "abort":
        deaf.abort()
        assert deaf.finish.reason is FinishReason.ABORTED
        assert worker.stats().counts.num_surplus_tokens == MAX_UNREAD
    else:
        worker.close("The model was unloaded.")
        assert len(read_all(deaf)) == MAX_UNREAD
        assert deaf.finish.message == "The model was unloaded."
    stats = worker.stats()
    assert (stats.num_paused, stats.num_slots_used, stats.num_pages_used) == (0, 0, 0)


def test_unread_logprobs_take_little_memory():
    """38 streams of 20 logprobs a token that nobody read once grew a process by 150 MiB."""
    logits = np.linspace(-4, 4, 1000, dtype=np.float32)
    feed = StreamFeed()
    tracemalloc.start()
    try:
        for token_id in range(MAX_UNREAD):
            feed.put(Token(token_id, token_logprobs(logits, token_id % 1000, 20)))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 500 * MAX_UNREAD
    assert [token_id for token_id, _ in feed.unread[0].logprobs.top] == list(range(999, 979, -1))


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "step", "step", "step", "unread", "unread", "abort"]),
        st.integers(0, 60),
        st.integers(1, 60),
        st.sampled_from(
            [0, BEHIND_UNREAD // 2 + 1, BEHIND_UNREAD, MAX_UNREAD // 2 + 1, MAX_UNREAD]
        ),
    ),
    max_size=80,
)


@settings(max_examples=60, deadline=None)
@given(num_slots=st.integers(1, 3), num_pages=st.integers(4, 8), actions=ACTIONS)
def test_books_balance_whoever_reads_when(num_slots, num_pages, actions):
    config = EngineConfig(128, num_pages=num_pages, num_slots=num_slots, chunk_len=9)
    scheduler, accepted = Scheduler(config, WorkerCounts()), []

    def check():
        seated = [s for s in accepted if s.state in (State.PREFILL, State.DECODE)]
        assert len({s.slot for s in seated}) == len(seated) == scheduler.num_slots_used
        assert len({page for s in seated for page in s.pages}) == scheduler.pages.num_used
        waiting = [s for s in accepted if s.state is State.WAITING]
        assert scheduler.num_queued == sum(not s.is_parked for s in waiting)
        assert all(s.is_behind for s in waiting if s.is_parked)
        assert len(scheduler.live()) == len(seated) + len(waiting)

    def step():
        plan = scheduler.plan()
        seated = [s for s in accepted if s.state in (State.PREFILL, State.DECODE)]
        if scheduler.num_queued:
            assert any(not s.is_behind or s.state is State.PREFILL for s in seated), (
                "someone waits for one who is behind"
            )
        if plan is None:
            assert all(s.is_paused for s in seated)
            return
        assert plan.decodes == tuple(s for s in scheduler.live() if s.is_decoding)
        assert not any(s.needs_page for s in plan.decodes)
        commit(scheduler, plan)

    for kind, first, second, num_unread in actions:
        of = accepted[first % len(accepted)] if accepted else None
        if kind == "add":
            accepted.append(sequence_of(first + 1, second))
            scheduler.add(accepted[-1])
        elif kind == "step":
            step()
        elif kind == "unread" and of and of.num_output:
            scheduler.unread(of, num_unread)
        elif kind == "abort" and of and of.state is not State.FINISHED:
            scheduler.remove(of)
        check()
    for _ in range(20_000):
        for sequence in accepted:
            scheduler.unread(sequence, 0)
        if not scheduler.live():
            break
        step()
    assert all(s.state is State.FINISHED for s in accepted)
    assert scheduler.pages.num_used == 0


def test_no_more_are_parked_than_may_be(monkeypatch):
    monkeypatch.setattr("inference.engine.scheduler.MAX_PARKED", 1)
    config = EngineConfig(context_len=128, num_pages=16, num_slots=2, queue_depth=0)
    scheduler = Scheduler(config, WorkerCounts())
    deaf = [sequence_of(5, 50) for _ in range(2)]
    for each in deaf:
        scheduler.add(each)
    run_step(scheduler), run_step(scheduler)
    for each in deaf:
        scheduler.unread(each, BEHIND_UNREAD)
    scheduler.add(sequence_of(5, 50))
    with pytest.raises(QueueFull):
        scheduler.add(sequence_of(5, 50))
    run_step(scheduler)
    assert [s.is_parked for s in deaf] == [False, True]
    with pytest.raises(QueueFull):
        scheduler.add(sequence_of(5, 50))


def test_who_reads_again_is_before_those_who_never_sat():
    config = EngineConfig(context_len=128, num_pages=8, num_slots=1)
    scheduler = Scheduler(config, WorkerCounts())
    slow = Sequence(request_of([1], 50), StreamFeed(), 0.0)
    scheduler.add(slow)
    run_step(scheduler)
    scheduler.unread(slow, BEHIND_UNREAD)
    others = [sequence_of(5, 5) for _ in range(3)]
    for each in others:
        scheduler.add(each)
    assert slow.state is State.DECODE, "a step may be in flight"
    run_step(scheduler)
    assert (slow.is_parked, others[0].state, scheduler.num_queued) == (True, State.DECODE, 2)
    scheduler.unread(slow, 33)
    assert slow.is_parked
    scheduler.unread(slow, 32)
    assert (slow.is_parked, scheduler.num_queued) == (False, 3)
    scheduler.remove(others[0])
    assert slow.state is State.PREFILL
