"""What is known of one sequence: waits, times, chunks, and the numbers it was accepted with."""

from __future__ import annotations

import pytest

from inference.engine.admission import Admission
from inference.engine.config import EngineConfig
from inference.engine.errors import NotEnoughMemory
from inference.engine.params import Progress, SequenceRequest
from inference.engine.pressure import Pressure, PressureGauge
from tests.fakes.clock import ManualClock
from tests.fakes.executor import Gate
from tests.inference.engine.driving import read_all, request_of

CONFIG = EngineConfig(context_len=256, num_pages=16, num_slots=1, chunk_len=16)
MIB = 1 << 20


def test_times_are_of_waiting_reading_and_answering(make_worker):
    gate, clock = Gate(), ManualClock()
    worker, _ = make_worker(CONFIG, before_step=gate, worker_args={"clock": clock})
    first, second = worker.submit(request_of([1], 1)), worker.submit(request_of([2] * 40, 4))
    assert second.progress == Progress(None, None, None, 0, 0, 0, 0)
    worker.start()
    for _ in range(7):  # one step of the first, three chunks, three more tokens
        gate.wait_for_step()
        clock.advance(2)
        gate.allow()
    read_all(first), read_all(second)
    assert first.progress == Progress(0, 2, 0, 1, 0, 0, 0)
    assert second.progress == Progress(2, 6, 6, 3, 0, 0, 0)


def test_a_preemption_is_counted_and_the_first_wait_stays(make_worker):
    config = EngineConfig(context_len=128, num_pages=4, num_slots=2, chunk_len=16)
    clock = ManualClock()
    worker, _ = make_worker(config, worker_args={"clock": clock})
    streams = [worker.submit(request_of([i] * 30, 90)) for i in (1, 2)]
    worker.start()
    for stream in streams:
        read_all(stream)
    assert [s.progress.num_preempted for s in streams] == [0, 1]
    assert streams[1].progress.queue_wait_s == 0
    assert streams[1].progress.num_chunks > 2


def test_the_numbers_of_an_admission_are_those_of_its_moment(make_worker):
    worker, _ = make_worker(CONFIG)
    running, queued = worker.submit(request_of([1] * 40, 30)), worker.submit(request_of([2], 100))
    assert running.admission == Admission(3, 16, 0, 0, Pressure.LOW)
    assert queued.admission == Admission(4, 14, 0, 0, Pressure.LOW)
    assert worker.submit(request_of([3], 1)).admission.num_ahead == 1


def request_needing(num_bytes):
    return SequenceRequest("r", (1,), 4, host_bytes=num_bytes)


def test_what_would_itself_leave_the_host_short_of_memory_is_refused_with_the_number(make_worker):
    """S36: denied before prefill, by what the host has now."""
    left = [300 * MIB]
    gauge = PressureGauge(lambda: left[0])
    gauge.read()
    worker, executor = make_worker(CONFIG, worker_args={"pressure": gauge})
    worker.start()
    with pytest.raises(NotEnoughMemory, match="200 MiB") as refused:
        worker.submit(request_needing(200 * MIB))
    assert (refused.value.needed_bytes, refused.value.retry_after_s) == (200 * MIB, 5)
    assert (executor.num_steps, worker.stats().counts.num_refused) == (0, 1)
    assert len(read_all(worker.submit(request_needing(100 * MIB)))) == 4
    left[0] = 400 * MIB
    gauge.read()
    assert len(read_all(worker.submit(request_needing(200 * MIB)))) == 4


def test_a_request_waits_in_the_queue_until_what_it_needs_is_there(make_worker):
    left = [100 * MIB]
    gauge = PressureGauge(lambda: left[0])
    gauge.read()
    worker, _ = make_worker(CONFIG, worker_args={"pressure": gauge})
    worker.start()
    stream = worker.submit(request_needing(200 * MIB))
    assert worker.stats().num_queued == 1
    left[0] = 300 * MIB
    gauge.read()
    with pytest.raises(TimeoutError):
        stream.wait(0.6)
    left[0] = 329 * MIB
    gauge.read()
    assert len(read_all(stream, 5)) == 4


def test_a_request_without_the_prefix_cache_neither_finds_pages_nor_leaves_any(make_worker):
    worker, _ = make_worker(CONFIG)
    worker.start()
    prompt = tuple(range(70))
    plain = SequenceRequest("r", prompt, 4)
    apart = SequenceRequest("r", prompt, 4, use_prefix_cache=False)
    read_all(worker.submit(apart))
    assert worker.stats().num_pages_cached == 0
    read_all(worker.submit(plain))
    stream = worker.submit(apart)
    read_all(stream)
    assert stream.usage.num_cached_tokens == 0
    again = worker.submit(plain)
    read_all(again)
    assert again.usage.num_cached_tokens == 64
    counts = worker.stats().counts
    assert (counts.num_prefix_hits, counts.num_prefix_misses) == (1, 1)
