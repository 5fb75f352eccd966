"""Runs requests through a worker with set arrivals and aborts, counted in steps, so that a run repeats."""

from __future__ import annotations

import threading

from inference.engine.params import FinishReason
from inference.engine.worker import Worker


def run_schedule(make_executor, vocab_size, config, requests, arrivals, aborts=None, see=None):
    """The tokens that were read of each request, in order.

    `make_executor(before_step)` makes the executor. Request i is submitted before step arrivals[i],
    or once all others are done; it is aborted before step aborts[i]. `see` gets the worker's last stats.
    """
    lock, streams = threading.Lock(), {}

    def before_step(step):
        with lock:
            for index, request in enumerate(requests):
                if arrivals[index] <= step and index not in streams:
                    streams[index] = worker.submit(request)
                if (aborts or {}).get(index) == step and index in streams:
                    streams[index].abort()

    executor = make_executor(before_step)
    worker = Worker(executor, vocab_size, config, "schedule")
    try:
        before_step(0)
        worker.start()
        tokens = {}
        while len(tokens) < len(requests):
            with lock:
                unread = {i: s for i, s in streams.items() if i not in tokens}
                if not unread:
                    late = min(i for i in range(len(requests)) if i not in streams)
                    unread = {late: streams.setdefault(late, worker.submit(requests[late]))}
            for index, stream in unread.items():
                tokens[index] = read_tokens(stream, may_be_aborted=index in (aborts or {}))
        stats = worker.stats()
        assert (stats.num_slots_used, stats.num_queued) == (0, 0)
        assert stats.num_pages_used == 0
        if see is not None:
            see(stats)
        return [tokens[index] for index in range(len(requests))]
    finally:
        worker.close("The schedule is over.")


def read_tokens(stream, *, may_be_aborted):
    tokens = []
    while new := stream.wait(60):
        tokens += new
    natural = stream.finish.reason in (FinishReason.END, FinishReason.LENGTH)
    assert natural or (may_be_aborted and stream.finish.reason is FinishReason.ABORTED)
    return tokens
