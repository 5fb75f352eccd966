from __future__ import annotations

import pytest

from inference.engine.config import EngineConfig
from inference.engine.errors import QueueFull, QueueTimeout
from inference.engine.params import FinishReason
from tests.fakes.clock import ManualClock
from tests.fakes.executor import Gate, greedy_continuation
from tests.inference.engine.driving import VOCAB_SIZE, read_all, request_of

CONFIG = EngineConfig(
    context_len=256, num_pages=8, num_slots=1, chunk_len=16, queue_depth=2, queue_wait_s=30
)


def busy(make_worker):
    """A worker whose one slot is taken, before its first step; the gate and the manual clock."""
    gate, clock = Gate(), ManualClock()
    worker, _ = make_worker(CONFIG, before_step=gate, worker_args={"clock": clock})
    running = worker.submit(request_of([1], 10))
    worker.start()
    gate.wait_for_step()
    return worker, gate, clock, running


def test_a_full_queue_refuses_and_the_refused_leave_no_trace(make_worker):
    worker, gate, _clock, running = busy(make_worker)
    queued = [worker.submit(request_of([i], 3)) for i in (5, 6)]
    with pytest.raises(QueueFull) as refused:
        worker.submit(request_of([7], 3))
    assert refused.value.retry_after_s == 5
    gate.open()
    read_all(running)
    assert [read_all(s) for s in queued] == [
        greedy_continuation([i], 3, VOCAB_SIZE) for i in (5, 6)
    ]
    counts = worker.stats().counts
    assert (counts.num_accepted, counts.num_completed, counts.num_refused) == (3, 3, 1)


def test_who_would_be_refused_is_told_before_asking(make_worker):
    worker, gate, _clock, running = busy(make_worker)
    worker.check_place()
    queued = [worker.submit(request_of([i], 3)) for i in (5, 6)]
    with pytest.raises(QueueFull):
        worker.check_place()
    assert worker.stats().counts.num_refused == 1
    gate.open()
    read_all(running)
    assert [len(read_all(s)) for s in queued] == [3, 3]
    worker.check_place()


def test_the_queue_is_served_in_order(make_worker):
    worker, gate, _clock, _running = busy(make_worker)
    first, second = worker.submit(request_of([5], 3)), worker.submit(request_of([6], 3))
    gate.allow(11)  # the ten steps of the one running and the first of the next
    for _ in range(11):
        gate.wait_for_step()
    assert first.usage.num_output_tokens == 1
    assert second.usage.num_output_tokens == 0


def test_who_waits_too_long_gets_a_timeout_and_the_others_go_on(make_worker):
    worker, gate, clock, running = busy(make_worker)
    early = worker.submit(request_of([5], 3))
    clock.advance(10)
    late = worker.submit(request_of([6], 3))
    clock.advance(21)
    gate.allow()
    with pytest.raises(QueueTimeout) as timeout:
        early.wait(5)
    assert timeout.value.waited_s == 31
    assert timeout.value.retry_after_s == 2
    assert early.finish.reason is FinishReason.ERROR
    with pytest.raises(QueueTimeout):
        early.wait(5)
    gate.open()
    assert read_all(running) == greedy_continuation([1], 10, VOCAB_SIZE)
    assert read_all(late) == greedy_continuation([6], 3, VOCAB_SIZE)
    counts = worker.stats().counts
    assert (counts.num_timed_out, counts.num_completed, counts.num_failed) == (1, 2, 0)


def test_time_in_a_slot_is_not_waiting(make_worker):
    _worker, gate, clock, running = busy(make_worker)
    clock.advance(1000)
    gate.open()
    assert len(read_all(running)) == 10
