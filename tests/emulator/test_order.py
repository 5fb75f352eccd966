"""The order work runs in: at once, or only when something waits for it, so that missing waits show."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.bench import context, kernel, pycuda_driver

DOUBLE = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
RANK = """
__device__ int next;
extern "C" __global__ void rank(int *y) { y[blockIdx.x * blockDim.x + threadIdx.x] = next++; }
"""


@pytest.fixture
def lazy(emulated):
    emulated.reset(num_dies=2, lazy=True)
    with context():
        yield pycuda_driver()


def doubled_in(cuda, stream) -> tuple:
    x = cuda.to_device(np.ones(32, np.float32))
    twice = kernel(DOUBLE, "twice")
    twice(x, block=(32, 1, 1), stream=stream)
    host = cuda.pagelocked_empty(32, np.float32)
    host[:] = -1
    return x, host, twice  # a module that goes away waits for its work


def test_nothing_runs_before_something_waits(lazy) -> None:
    stream = lazy.Stream()
    x, host, _twice = doubled_in(lazy, stream)
    lazy.memcpy_dtoh_async(host, x, stream)
    assert host[0] == -1
    stream.synchronize()
    assert host[0] == 2


def test_a_stream_that_does_not_wait_reads_what_was_before(lazy) -> None:
    first, second = lazy.Stream(), lazy.Stream()
    x, host, _twice = doubled_in(lazy, first)
    lazy.memcpy_dtoh_async(host, x, second)
    second.synchronize()
    assert host[0] == 1


def test_a_stream_that_waits_for_an_event_reads_what_it_brings(lazy) -> None:
    first, second, event = lazy.Stream(), lazy.Stream(), lazy.Event()
    x, host, _twice = doubled_in(lazy, first)
    event.record(first)
    second.wait_for_event(event)
    lazy.memcpy_dtoh_async(host, x, second)
    second.synchronize()
    assert host[0] == 2


def test_an_event_of_an_ended_context_holds_nobody_up(lazy) -> None:
    """Its work has run by then: the end of a context waits for it."""
    stream = lazy.Stream()
    with context(1) as other:
        event = lazy.Event()
        event.record(lazy.Stream())
        other.pop()
        stream.wait_for_event(event)
        other.push()
    stream.synchronize()


def test_an_event_passes_after_some_questions(lazy) -> None:
    stream, event = lazy.Stream(), lazy.Event()
    kept = doubled_in(lazy, stream)
    event.record(stream)
    assert kept
    assert not event.query()
    assert any(event.query() for _ in range(3))


def test_page_locked_memory_is_read_late_and_other_memory_at_once(lazy) -> None:
    stream = lazy.Stream()
    x = lazy.mem_alloc(64)
    for source, arrives in (
        (lazy.pagelocked_zeros(16, np.float32), 7),
        (np.zeros(16, np.float32), 0),
    ):
        lazy.memcpy_htod_async(x, source, stream)
        source[:] = 7
        stream.synchronize()
        assert lazy.from_device(x, 1, np.float32)[0] == arrives


def test_a_fault_shows_where_something_waits(lazy) -> None:
    stream = lazy.Stream()
    x = lazy.mem_alloc(64)
    kernel('extern "C" __global__ void far(float *x) { x[1 << 20] = 1; }', "far")(
        x, block=(1, 1, 1), stream=stream
    )
    with pytest.raises(lazy.Error, match="illegal memory access"):
        stream.synchronize()


@pytest.mark.parametrize("reversed_threads", [False, True])
def test_threads_and_blocks_come_in_either_order(emulated, reversed_threads: bool) -> None:
    emulated.reset(num_dies=1, reversed_threads=reversed_threads)
    with context():
        cuda = pycuda_driver()
        y = cuda.mem_alloc(4 * 96)
        kernel(RANK, "rank")(y, block=(48, 1, 1), grid=(2, 1))
        ranks = cuda.from_device(y, 96, np.int32)
        assert ranks.tolist() == sorted(ranks, reverse=reversed_threads)
