from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from inference.engine.config import EngineConfig
from inference.engine.errors import QueueTimeout
from inference.engine.params import FinishReason
from inference.engine.stream import MAX_TAKEN
from tests.fakes.clock import ManualClock
from tests.fakes.executor import Gate, greedy_continuation
from tests.inference.engine.driving import VOCAB_SIZE, request_of


async def collect(stream):
    return [token.id async for tokens in stream for token in tokens]


async def test_an_event_loop_reads_many_streams(make_worker):
    worker, _ = make_worker()
    worker.start()
    streams = [worker.submit(request_of([i], 15)) for i in range(20)]
    results = await asyncio.gather(*(collect(stream) for stream in streams))
    assert results == [greedy_continuation([i], 15, VOCAB_SIZE) for i in range(20)]
    assert all(stream.finish.reason is FinishReason.LENGTH for stream in streams)


async def test_a_step_wakes_the_event_loop_once_for_all_its_streams(make_worker, monkeypatch):
    gate = Gate()
    worker, _ = make_worker(before_step=gate)
    streams = [worker.submit(request_of([i], 30)) for i in range(8)]
    worker.start()
    gate.allow(9)  # one prompt a step, then all eight decode
    loop = asyncio.get_running_loop()
    for _ in range(9):
        await asyncio.to_thread(gate.wait_for_step)
    for stream in streams:
        await anext(stream)
    readers = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await asyncio.sleep(0)
    calls = []
    wake = loop.call_soon_threadsafe
    monkeypatch.setattr(
        loop, "call_soon_threadsafe", lambda *args: (calls.append(args), wake(*args))
    )
    gate.allow()
    chunks = await asyncio.gather(*readers)
    monkeypatch.undo()
    assert [len(chunk) for chunk in chunks] == [1] * 8
    assert len(calls) == 1
    gate.open()


async def test_a_slow_reader_stalls_nobody_and_gets_everything_later(make_worker):
    worker, _ = make_worker()
    worker.start()
    slow = worker.submit(request_of([1], 100))
    fast = await collect(worker.submit(request_of([2], 120)))
    assert len(fast) == 120
    assert slow.finish.reason is FinishReason.LENGTH
    pieces = [piece async for piece in slow]
    assert [t.id for piece in pieces for t in piece] == greedy_continuation([1], 100, VOCAB_SIZE)
    assert [len(piece) for piece in pieces] == [MAX_TAKEN] * 3 + [4]


async def test_a_blocked_event_loop_does_not_block_the_worker(make_worker):
    worker, executor = make_worker()
    worker.start()
    stream = worker.submit(request_of([1], 60))
    reader = asyncio.ensure_future(collect(stream))
    await asyncio.sleep(0)
    while stream.finish is None:  # the loop is held here, without a turn for the reader
        pass
    assert executor.num_steps == 60
    assert len(await reader) == 60


async def test_abort_ends_a_sleeping_reader(make_worker):
    gate = Gate()
    worker, _ = make_worker(before_step=gate)
    worker.start()
    stream = worker.submit(request_of([1], 60))
    reader = asyncio.ensure_future(collect(stream))
    await asyncio.sleep(0.01)
    assert not reader.done()
    await stream.aclose()
    assert await asyncio.wait_for(reader, 5) == []
    assert stream.finish.reason is FinishReason.ABORTED


async def test_a_cancelled_reader_may_read_again(make_worker):
    gate = Gate()
    worker, _ = make_worker(before_step=gate)
    worker.start()
    stream = worker.submit(request_of([1], 5))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 0.02)
    gate.open()
    assert await collect(stream) == greedy_continuation([1], 5, VOCAB_SIZE)


async def test_a_nudged_reader_gets_nothing_and_reads_on(make_worker):
    gate = Gate()
    worker, _ = make_worker(before_step=gate)
    worker.start()
    stream = worker.submit(request_of([1], 5))
    for _ in range(3):
        reader = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        stream.nudge()
        assert await reader == ()
    gate.open()
    assert await collect(stream) == greedy_continuation([1], 5, VOCAB_SIZE)


async def test_nobody_is_nudged_who_does_not_wait(make_worker):
    worker, _ = make_worker()
    worker.start()
    stream = worker.submit(request_of([1], 5))
    stream.nudge()
    pieces = [piece async for piece in stream]
    stream.nudge()
    assert () not in pieces
    assert [t.id for piece in pieces for t in piece] == greedy_continuation([1], 5, VOCAB_SIZE)


async def test_a_second_reader_at_the_same_time_is_an_error(make_worker):
    worker, _ = make_worker(before_step=Gate())
    worker.start()
    stream = worker.submit(request_of([1], 5))
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="already reading"):
        await anext(stream)
    reader.cancel()


async def test_a_queue_timeout_is_raised_to_the_reader(make_worker):
    gate, clock = Gate(), ManualClock()
    config = EngineConfig(context_len=256, num_pages=8, num_slots=1, chunk_len=16)
    worker, _ = make_worker(config, before_step=gate, worker_args={"clock": clock})
    running = worker.submit(request_of([1], 5))
    waiting = worker.submit(request_of([2], 5))
    worker.start()
    reader = asyncio.ensure_future(collect(waiting))
    await asyncio.sleep(0)
    clock.advance(31)
    gate.allow()
    with pytest.raises(QueueTimeout):
        await asyncio.wait_for(reader, 5)
    gate.open()
    assert len(await collect(running)) == 5


def test_a_closed_event_loop_does_not_harm_the_worker(make_worker):
    gate = Gate()
    worker, _ = make_worker(before_step=gate)
    worker.start()
    stream = worker.submit(request_of([1], 5))
    loop = asyncio.new_event_loop()
    reader = loop.create_task(collect(stream))
    loop.call_later(0.02, loop.stop)
    loop.run_forever()
    stopped = loop.call_soon_threadsafe
    loop.close()
    gate.open()
    other = worker.submit(request_of([2], 5))
    while other.wait(5):
        pass
    assert other.finish.reason is FinishReason.LENGTH
    assert not reader.done() and stopped is not None


def test_a_dropped_stream_is_collected_and_frees_its_slot(make_worker):
    gate = Gate()
    worker, _ = make_worker(before_step=gate)
    worker.start()
    stream = worker.submit(request_of([1], 100))
    gate.wait_for_step()
    gone = weakref.ref(stream)
    assert worker.stats().num_slots_used == 1
    del stream
    gc.collect()
    assert gone() is None, "the worker must hold no reference to the reader's end"
    assert worker.stats().num_slots_used == 0
    assert worker.stats().num_pages_used == 0


def test_wait_says_when_nothing_came(make_worker):
    worker, _ = make_worker(before_step=Gate())
    worker.start()
    with pytest.raises(TimeoutError):
        worker.submit(request_of([1], 5)).wait(0.01)
