from __future__ import annotations

import contextlib
import gc
import random
import threading

import pytest

from inference.engine.config import EngineConfig
from inference.engine.errors import ContextExceeded, QueueFull, ReplicaClosed
from inference.engine.params import FinishReason, SamplingParams, Usage
from tests.fakes.executor import Gate, greedy_continuation
from tests.inference.engine.driving import CONFIG, VOCAB_SIZE, read_all, request_of

PROMPT = [3, 1, 4, 1, 5]


def assert_all_free(worker):
    stats = worker.stats()
    assert (stats.num_slots_used, stats.num_queued) == (0, 0)
    assert stats.num_pages_used == 0


def test_a_sequence_runs_to_max_tokens(make_worker):
    worker, _ = make_worker()
    worker.start()
    stream = worker.submit(request_of(PROMPT, 12))
    assert read_all(stream) == greedy_continuation(PROMPT, 12, VOCAB_SIZE)
    assert stream.finish.reason is FinishReason.LENGTH
    assert stream.usage == Usage(5, 0, 12)
    assert_all_free(worker)


def test_a_sequence_ends_with_its_end_id_which_is_delivered(make_worker):
    worker, _ = make_worker()
    worker.start()
    expected = greedy_continuation(PROMPT, 12, VOCAB_SIZE)
    end = next(t for i, t in enumerate(expected) if i >= 4 and t not in expected[:i])
    stream = worker.submit(request_of(PROMPT, 12, end_ids=[end]))
    assert read_all(stream) == expected[: expected.index(end) + 1]
    assert stream.finish.reason is FinishReason.END


def test_an_end_id_as_the_last_allowed_token_is_an_end(make_worker):
    worker, _ = make_worker()
    worker.start()
    (only,) = greedy_continuation(PROMPT, 1, VOCAB_SIZE)
    stream = worker.submit(request_of(PROMPT, 1, end_ids=[only]))
    assert read_all(stream) == [only]
    assert stream.finish.reason is FinishReason.END


def test_a_sequence_may_fill_the_whole_context(make_worker):
    worker, _ = make_worker()
    worker.start()
    prompt = [i % VOCAB_SIZE for i in range(200)]
    stream = worker.submit(request_of(prompt, 56))
    assert read_all(stream) == greedy_continuation(prompt, 56, VOCAB_SIZE)
    with pytest.raises(ContextExceeded):
        worker.submit(request_of(prompt, 57))


def test_decoders_have_a_row_in_every_step_of_a_long_prompt(make_worker):
    gate = Gate()
    worker, executor = make_worker(before_step=gate)
    decoder = worker.submit(request_of([1], 40))
    worker.start()
    gate.wait_for_step()
    long = worker.submit(request_of([2] * 100, 4))
    gate.open()
    read_all(decoder), read_all(long)
    prompt_steps = [rows for rows in executor.rows_of_steps if (1, 99) in rows or len(rows) > 1]
    assert len(prompt_steps) >= 100 // CONFIG.chunk_len
    for rows in executor.rows_of_steps[1:40]:
        assert sum(slot == 0 for slot, _ in rows) == 1
        assert sum(slot == 1 for slot, _ in rows) <= CONFIG.chunk_len


# Aborts: one worker with one slot, held before a step by a gate.

ONE_SLOT = EngineConfig(context_len=256, num_pages=8, num_slots=1, chunk_len=16)


def gated(make_worker, prompt=PROMPT, steps=0):
    """A worker whose one slot is taken, standing before step `steps`, and the gate."""
    gate = Gate()
    worker, executor = make_worker(ONE_SLOT, before_step=gate)
    stream = worker.submit(request_of(prompt, 20))
    worker.start()
    gate.wait_for_step()
    for _ in range(steps):
        gate.allow()
        gate.wait_for_step()
    return worker, executor, gate, stream


def test_abort_in_the_queue_needs_no_step(make_worker):
    worker, executor, _gate, _running = gated(make_worker)
    queued = worker.submit(request_of(PROMPT, 20))
    assert worker.stats().num_queued == 1
    queued.abort()
    assert queued.finish.reason is FinishReason.ABORTED
    assert queued.wait(1) == ()
    assert worker.stats().num_queued == 0
    assert executor.num_steps == 0


def test_abort_in_prefill_takes_effect_between_chunks(make_worker):
    worker, executor, gate, stream = gated(make_worker, prompt=[1] * 200, steps=2)
    waiting = worker.submit(request_of(PROMPT, 3))
    stream.abort()
    assert stream.finish.reason is FinishReason.ABORTED
    assert worker.stats().num_queued == 0, "the next in the queue has the slot"
    gate.open()
    assert read_all(waiting) == greedy_continuation(PROMPT, 3, VOCAB_SIZE)
    assert executor.num_steps == 3 + 3  # the chunk in flight was the last of the aborted prompt
    assert_all_free(worker)


def test_abort_while_decoding_drops_the_token_in_flight_and_counts_it(make_worker):
    worker, _, gate, stream = gated(make_worker, steps=4)
    assert stream.usage.num_output_tokens == 4
    stream.abort()
    gate.open()
    assert stream.wait(1) == ()
    assert stream.usage.num_output_tokens == 4
    counts = worker.stats().counts
    assert (counts.num_aborted, counts.num_surplus_tokens, counts.num_output_tokens) == (1, 5, 5)
    assert stream.progress.num_surplus_tokens == 5
    assert_all_free(worker)


def test_tokens_read_in_vain_are_surplus_too(make_worker):
    """D3: those after a stop string, which a reader takes in the same step as the string."""
    worker, _, gate, stream = gated(make_worker, steps=4)
    assert len(stream.wait(1)) == 4
    stream.abort(num_unused=3)
    gate.open()
    counts = worker.stats().counts
    assert (counts.num_output_tokens, counts.num_surplus_tokens) == (5, 3 + 1)


def test_abort_after_the_finish_changes_no_finish_but_frees_the_unread(make_worker):
    worker, _ = make_worker()
    worker.start()
    stream = worker.submit(request_of(PROMPT, 5))
    read_all(worker.submit(request_of(PROMPT, 9)))
    assert stream.finish.reason is FinishReason.LENGTH
    stream.abort()
    assert stream.wait(1) == ()
    assert stream.finish.reason is FinishReason.LENGTH
    counts = worker.stats().counts
    assert (counts.num_completed, counts.num_aborted, counts.num_surplus_tokens) == (2, 0, 5)


def test_abort_is_idempotent_from_many_threads(make_worker):
    worker, _, gate, stream = gated(make_worker, steps=1)
    neighbour = worker.submit(request_of(PROMPT, 2))
    threads = [threading.Thread(target=stream.abort) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gate.open()
    assert len(read_all(neighbour)) == 2
    assert worker.stats().counts.num_aborted == 1
    assert_all_free(worker)


def test_abort_does_not_wait_for_the_lock(make_worker):
    """A stream may be collected on the thread that holds it; then the next step does the work."""
    worker, _, gate, stream = gated(make_worker, steps=1)
    with worker._lock:
        stream.abort()
        assert stream.finish is None
    gate.open()
    assert len(read_all(stream)) <= 2, "the step in flight still counts, no other does"
    assert stream.finish.reason is FinishReason.ABORTED
    assert_all_free(worker)


def test_two_hundred_streams_dropped_before_the_first_read_leak_nothing(make_worker):
    gate = Gate()
    worker, _ = make_worker(before_step=gate)
    worker.start()
    for index in range(200):
        worker.submit(request_of(PROMPT, 50, request_id=str(index)))
        if index == 100:
            gate.allow(3)
    gc.collect()
    gate.open()
    survivor = worker.submit(request_of(PROMPT, 4))
    assert read_all(survivor) == greedy_continuation(PROMPT, 4, VOCAB_SIZE)
    assert worker.stats().counts.num_aborted == 200
    assert_all_free(worker)


def test_sequences_of_one_schedule_end_exactly_once(make_worker):
    worker, _ = make_worker()
    worker.start()
    streams = [worker.submit(request_of([i], 10)) for i in range(30)]
    for stream in streams[::3]:
        stream.abort()
    for stream in streams:
        read_all(stream)
    counts = worker.stats().counts
    assert counts.num_accepted == 30
    assert counts.num_completed + counts.num_aborted == 30
    assert all(stream.finish for stream in streams)


# The end of a replica.


def test_close_finishes_those_seated_and_those_queued(make_worker):
    worker, _executor, gate, running = gated(make_worker, steps=2)
    queued = [worker.submit(request_of(PROMPT, 5)) for _ in range(3)]
    closer = threading.Thread(target=worker.close, args=("The model was unloaded.",))
    closer.start()
    assert len(read_all(running)) == 2
    for stream in queued:
        with pytest.raises(ReplicaClosed):
            stream.wait(5)
    for stream in (running, *queued):
        assert stream.finish.reason is FinishReason.ERROR
        assert stream.finish.message == "The model was unloaded."
    assert closer.is_alive(), "it waits for the step in flight"
    gate.open()
    closer.join(5)
    assert not closer.is_alive()
    with pytest.raises(ReplicaClosed):
        worker.submit(request_of(PROMPT))
    assert_all_free(worker)
    assert worker.stats().counts.num_failed == 4


def test_close_twice_and_before_start_is_harmless(make_worker):
    worker, _ = make_worker()
    stream = worker.submit(request_of(PROMPT))
    worker.close("Gone.")
    worker.close("Gone.")
    assert stream.wait(1) == ()
    assert stream.finish.message == "Gone."


def test_a_failing_step_fails_every_sequence_and_the_replica(make_worker):
    def fail(step):
        if step == 3:
            raise RuntimeError("die 2 fell off the bus")

    reasons = []
    worker, _ = make_worker(ONE_SLOT, before_step=fail, worker_args={"on_failure": reasons.append})
    streams = [worker.submit(request_of(PROMPT, 20)) for _ in range(3)]
    worker.start()
    assert len(read_all(streams[0])) == 3
    for queued in streams[1:]:
        with pytest.raises(ReplicaClosed, match="failed"):
            queued.wait(5)
    for stream in streams:
        assert stream.finish.reason is FinishReason.ERROR
        assert stream.finish.message.endswith(".")
        assert "bus" not in stream.finish.message, "the operator's reason is not the caller's"
    worker.close("Closed after the failure.")
    assert reasons == ["die 2 fell off the bus"]
    with pytest.raises(ReplicaClosed, match="failed"):
        worker.submit(request_of(PROMPT))
    assert_all_free(worker)


def test_on_failure_may_close_the_worker(make_worker):
    def fail(_step):
        raise RuntimeError("no")

    closed = threading.Event()

    def close(_reason):
        worker.close("It failed.")
        closed.set()

    worker, _ = make_worker(before_step=fail, worker_args={"on_failure": close})
    worker.start()
    assert read_all(worker.submit(request_of(PROMPT))) == []
    assert closed.wait(5)


def test_unusable_logits_end_one_sequence_and_spare_its_neighbour(make_worker):
    def spoil(logits, batch):
        for row, slot in enumerate(batch.slots[batch.logit_rows].tolist()):
            if slot == 0 and batch.positions[batch.logit_rows[row]] >= 7:
                logits[row] = float("nan")

    worker, _ = make_worker(change_logits=spoil)
    bad, good = worker.submit(request_of(PROMPT, 9)), worker.submit(request_of([9], 9))
    worker.start()
    assert read_all(bad) == greedy_continuation(PROMPT, 3, VOCAB_SIZE)
    assert bad.finish.reason is FinishReason.ERROR
    assert read_all(good) == greedy_continuation([9], 9, VOCAB_SIZE)
    assert read_all(worker.submit(request_of([8], 2))) == greedy_continuation([8], 2, VOCAB_SIZE)


def test_an_idle_worker_takes_no_steps(make_worker):
    worker, executor = make_worker()
    worker.start()
    read_all(worker.submit(request_of(PROMPT, 4)))
    steps = executor.num_steps
    assert steps == 4
    assert not threading.Event().wait(0.05)
    assert executor.num_steps == steps


def test_seeds_repeat_and_are_independent_of_the_slot(make_worker):
    worker, _ = make_worker()
    worker.start()
    seeded = request_of(PROMPT, 20, SamplingParams(temperature=1.5, seed=42))
    first = read_all(worker.submit(seeded))
    beside = [worker.submit(request_of([i], 30)) for i in range(3)]
    assert read_all(worker.submit(seeded)) == first
    unseeded = request_of(PROMPT, 20, SamplingParams(temperature=1.5))
    assert read_all(worker.submit(unseeded)) != read_all(worker.submit(unseeded))
    for stream in beside:
        read_all(stream)


def test_stats_count_what_was_done(make_worker):
    worker, _ = make_worker()
    worker.start()
    read_all(worker.submit(request_of([1] * 20, 6)))
    counts = worker.stats().counts
    assert (counts.num_prompt_tokens, counts.num_output_tokens) == (20, 6)
    assert counts.num_steps == 2 + 5
    assert counts.step_s > 0
    counts.num_steps = 0
    assert worker.stats().counts.num_steps == 7, "a snapshot is a copy"


@pytest.mark.parametrize("where", ["_choosing.tokens", "_scheduler.prefilled", "_arrays.fill"])
def test_a_bug_anywhere_in_a_step_leaves_no_reader_waiting(make_worker, monkeypatch, where):
    def fail(*_args):
        raise KeyError("a bug")

    worker, _ = make_worker()
    part, method = where.split(".")
    monkeypatch.setattr(getattr(worker, part), method, fail)
    streams = [worker.submit(request_of([i], 5)) for i in range(12)]
    worker.start()
    for stream in streams:
        with contextlib.suppress(ReplicaClosed):  # those in the queue
            assert read_all(stream) == []
        assert stream.finish.reason is FinishReason.ERROR
    assert_all_free(worker)


def test_books_balance_after_many_threads_did_as_they_liked(make_worker):
    """Submitting, reading, aborting and dropping at once; every accepted sequence ends once.

    Beginnings are shared and memory is short, so pages are found, evicted and given up all the time.
    """
    config = EngineConfig(context_len=128, num_pages=9, num_slots=4, chunk_len=8, queue_depth=6)
    worker, _ = make_worker(config)
    worker.start()
    wrong = []

    def client(seed):
        rng = random.Random(seed)
        for _ in range(60):
            prompt = [seed % 3] * rng.randrange(70) + [rng.randrange(VOCAB_SIZE)]
            count = rng.randrange(1, 40)
            try:
                stream = worker.submit(request_of(prompt, count))
            except QueueFull:
                continue
            deed = rng.randrange(4)
            if deed == 0:
                stream.abort()
            elif deed == 1:
                stream.wait(20)
            elif deed == 2 and read_all(stream) != greedy_continuation(prompt, count, VOCAB_SIZE):
                wrong.append((seed, prompt))
            stream = None

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    last = worker.submit(request_of(PROMPT, 2))
    assert len(read_all(last)) == 2
    counts = worker.stats().counts
    assert counts.num_accepted == counts.num_completed + counts.num_aborted
    assert counts.num_accepted + counts.num_refused == 8 * 60 + 1
    assert counts.num_cached_tokens > 0
    assert_all_free(worker)
