from __future__ import annotations

import threading
import time

import pytest

from inference.engine.config import EngineConfig
from inference.engine.errors import MemoryPressure, QueueFull, QueueTimeout
from inference.engine.pressure import Pressure, PressureGauge, pressure_of
from tests.fakes.clock import ManualClock
from tests.fakes.executor import Gate, greedy_continuation
from tests.inference.engine.driving import VOCAB_SIZE, read_all, request_of

MIB = 1 << 20


@pytest.mark.parametrize(
    ("mib", "level"),
    [
        (0, Pressure.CRITICAL),
        (127, Pressure.CRITICAL),
        (128, Pressure.HIGH),
        (256, Pressure.ELEVATED),
        (511, Pressure.ELEVATED),
        (512, Pressure.LOW),
        (1 << 20, Pressure.LOW),
    ],
)
def test_levels_are_those_of_the_documentation(mib, level):
    assert pressure_of(mib * MIB) is level


def test_levels_are_in_order():
    assert Pressure.LOW < Pressure.ELEVATED < Pressure.HIGH < Pressure.CRITICAL


def test_the_gauge_reads_on_its_own_thread_only():
    """Whoever asks gets the newest reading, even while the next one hangs."""
    threads, second, proceed = [], threading.Event(), threading.Event()

    def read():
        threads.append(threading.current_thread().name)
        if len(threads) == 2:
            second.set()
            proceed.wait(10)
            return 0
        return 200 * MIB

    gauge = PressureGauge(read)
    assert gauge() is Pressure.LOW
    gauge.start()
    assert second.wait(10)
    assert [gauge() for _ in range(100)] == [Pressure.HIGH] * 100
    proceed.set()
    deadline = time.monotonic() + 10
    while gauge() is not Pressure.CRITICAL:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    gauge.stop()
    assert set(threads[1:]) == {"pressure"}


def test_a_reading_that_fails_changes_nothing():
    readings = iter([0, OSError("no /proc here"), 1 << 40])

    def read():
        reading = next(readings)
        if isinstance(reading, OSError):
            raise reading
        return reading

    gauge = PressureGauge(read)
    levels = []
    for _ in range(3):
        gauge.read()
        levels.append(gauge())
    assert levels == [Pressure.CRITICAL, Pressure.CRITICAL, Pressure.LOW]


# What the levels mean for requests.

CONFIG = EngineConfig(context_len=256, num_pages=32, num_slots=2, chunk_len=16, queue_depth=2)


class Level:
    """A pressure that tests set."""

    def __init__(self, pressure):
        self.pressure = pressure

    def __call__(self, needed_bytes=0):
        return self.pressure


@pytest.mark.parametrize("pressure", [Pressure.LOW, Pressure.ELEVATED, Pressure.HIGH])
def test_a_free_slot_is_taken_at_once_below_critical(make_worker, pressure):
    worker, _ = make_worker(CONFIG, worker_args={"pressure": Level(pressure)})
    stream = worker.submit(request_of([1]))
    stats = worker.stats()
    assert (stats.num_slots_used, stats.num_queued, stats.pressure) == (1, 0, pressure)
    stream.abort()


def test_under_critical_pressure_a_request_waits_beside_free_slots_until_it_falls(make_worker):
    level = Level(Pressure.CRITICAL)
    worker, executor = make_worker(CONFIG, worker_args={"pressure": level})
    worker.start()
    stream = worker.submit(request_of([1], 4))
    with pytest.raises(TimeoutError):
        stream.wait(0.6)
    assert (worker.stats().num_queued, executor.num_steps) == (1, 0)
    level.pressure = Pressure.HIGH
    assert read_all(stream, 5) == greedy_continuation([1], 4, VOCAB_SIZE)


def test_those_let_in_before_go_on_under_critical_pressure(make_worker):
    """Also when they are preempted: their memory was theirs already."""
    level = Level(Pressure.LOW)
    config = EngineConfig(context_len=128, num_pages=4, num_slots=2, chunk_len=16)
    worker, _ = make_worker(config, worker_args={"pressure": level})
    streams = [worker.submit(request_of([i] * 30, 90)) for i in (1, 2)]
    level.pressure = Pressure.CRITICAL
    worker.start()
    for i, stream in ((1, streams[0]), (2, streams[1])):
        assert read_all(stream) == greedy_continuation([i] * 30, 90, VOCAB_SIZE)
    assert worker.stats().counts.num_preempted == 1


def test_a_full_queue_refuses_with_the_reason_of_the_moment(make_worker):
    """S27: 429 when it is busy, 503 when memory is short."""
    level = Level(Pressure.CRITICAL)
    worker, _ = make_worker(CONFIG, worker_args={"pressure": level})
    held = [worker.submit(request_of([i])) for i in range(2)]
    with pytest.raises(MemoryPressure) as refused:
        worker.submit(request_of([2]))
    assert (refused.value.queue_depth, refused.value.retry_after_s) == (2, 5)
    level.pressure = Pressure.HIGH
    with pytest.raises(QueueFull):
        worker.submit(request_of([3]))
    assert worker.stats().counts.num_refused == 2
    worker.start()
    assert [len(read_all(stream)) for stream in held] == [8, 8]


def test_who_waits_too_long_for_memory_gets_a_timeout(make_worker):
    clock = ManualClock()
    args = {"pressure": Level(Pressure.CRITICAL), "clock": clock}
    worker, _ = make_worker(CONFIG, worker_args=args)
    worker.start()
    stream = worker.submit(request_of([1]))
    clock.advance(31)
    with pytest.raises(QueueTimeout):
        stream.wait(5)


def test_an_abort_while_held_back_leaves_nothing(make_worker):
    worker, _ = make_worker(CONFIG, worker_args={"pressure": Level(Pressure.CRITICAL)})
    worker.start()
    worker.submit(request_of([1])).abort()
    assert worker.stats().num_queued == 0


def test_one_held_back_does_not_overtake_when_a_slot_becomes_free(make_worker):
    level, gate = Level(Pressure.LOW), Gate()
    worker, _ = make_worker(CONFIG, before_step=gate, worker_args={"pressure": level})
    running = worker.submit(request_of([1], 5))
    worker.start()
    gate.wait_for_step()
    level.pressure = Pressure.CRITICAL
    first, second = worker.submit(request_of([2], 3)), worker.submit(request_of([3], 3))
    gate.open()
    assert len(read_all(running)) == 5
    assert worker.stats().num_queued == 2
    level.pressure = Pressure.LOW
    assert len(read_all(first)) == len(read_all(second)) == 3
