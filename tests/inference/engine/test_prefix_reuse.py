from __future__ import annotations

import dataclasses

import pytest

from inference.engine import scheduler
from inference.engine.config import EngineConfig
from inference.engine.params import SamplingParams
from tests.fakes.executor import Gate, greedy_continuation
from tests.inference.engine.driving import VOCAB_SIZE, read_all, request_of

CONFIG = EngineConfig(context_len=512, num_pages=32, num_slots=4, chunk_len=64)
HISTORY = [i % VOCAB_SIZE for i in range(150)]  # 4 full pages and 22 tokens


def num_prompt_rows(executor, since=0):
    """Rows of steps that wrote more than one row of a slot: prompts, in a worker of few sequences."""
    return sum(len(rows) for rows in executor.rows_of_steps[since:] if len(rows) > 1)


def run(worker, prompt, count=5, **args):
    """The tokens, and how many of the prompt's were cached."""
    stream = worker.submit(request_of(prompt, count, **args))
    tokens = read_all(stream)
    return tokens, stream.usage.num_cached_tokens


def started(make_worker, config=CONFIG, **args):
    worker, executor = make_worker(config, **args)
    worker.start()
    return worker, executor


@pytest.mark.parametrize("num_answer", [43, 60, 74])
def test_a_second_turn_computes_only_what_is_new(make_worker, num_answer):
    """History, answer and question: pages that the answer filled are found, too, to the last row."""
    worker, executor = started(make_worker)
    answer, num_cached = run(worker, HISTORY, num_answer)
    assert num_cached == 0
    steps = executor.num_steps
    second = [*HISTORY, *answer, *[7] * 20]
    tokens, num_cached = run(worker, second)
    assert tokens == greedy_continuation(second, 5, VOCAB_SIZE)
    assert num_cached == 192  # 150 + num_answer - 1 rows were run: 192, 209 and 223
    assert num_prompt_rows(executor, steps) == len(second) - 192
    counts = worker.stats().counts
    assert counts.num_cached_tokens == 192
    assert counts.num_prompt_tokens == 150 + len(second) - 192


@pytest.mark.parametrize(("length", "num_cached"), [(31, 0), (32, 0), (33, 32), (64, 32), (65, 64)])
def test_the_last_token_is_always_computed(make_worker, length, num_cached):
    worker, _ = started(make_worker)
    prompt = HISTORY[:length]
    first, _ = run(worker, prompt)
    assert run(worker, prompt) == (first, num_cached)


def test_equal_prompts_at_once_are_computed_once(make_worker):
    """Several choices of one request: each begins when the one before has published its pages."""
    worker, _ = make_worker(CONFIG)
    streams = [worker.submit(request_of(HISTORY, 40)) for _ in range(4)]
    worker.start()
    for stream in streams:
        assert read_all(stream) == greedy_continuation(HISTORY, 40, VOCAB_SIZE)
    assert [stream.usage.num_cached_tokens for stream in streams] == [0, 128, 128, 128]
    assert worker.stats().counts.num_prompt_tokens == 150 + 3 * 22


def test_pages_shared_by_live_sequences_are_counted_once(make_worker):
    gate = Gate()
    worker, _ = make_worker(CONFIG, before_step=gate)
    streams = [worker.submit(request_of(HISTORY, 4)) for _ in range(2)]
    assert worker.stats().num_pages_used == 5 + 5
    worker.start()
    for _ in range(4):  # three chunks of the first, one of the second
        gate.allow()
        gate.wait_for_step()
    gate.wait_for_step()
    assert worker.stats().num_pages_used == 5 + 1
    gate.open()
    for stream in streams:
        assert read_all(stream) == greedy_continuation(HISTORY, 4, VOCAB_SIZE)
    stats = worker.stats()
    assert (stats.num_pages_used, stats.num_pages_cached) == (0, 4)


def test_a_tenant_finds_nothing_of_another(make_worker):
    worker, _ = started(make_worker)
    assert run(worker, HISTORY, tenant="a")[1] == 0
    assert run(worker, HISTORY, tenant="b")[1] == 0
    assert run(worker, HISTORY)[1] == 0
    assert run(worker, HISTORY, tenant="a")[1] == 128


def test_without_the_cache_nothing_is_kept(make_worker):
    config = dataclasses.replace(CONFIG, prefix_cache=False)
    worker, _ = started(make_worker, config)
    first, _ = run(worker, HISTORY)
    assert run(worker, HISTORY) == (first, 0)
    assert worker.stats().num_pages_cached == 0


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(temperature=1.0, seed=11, num_logprobs=4),
        SamplingParams(temperature=0.8, repeat_penalty=1.4, repeat_last_n=-1, seed=2),
        SamplingParams(temperature=0, presence_penalty=1.5, frequency_penalty=0.7),
    ],
)
def test_a_hit_changes_neither_random_numbers_nor_penalties_nor_logprobs(make_worker, sampling):
    """Penalties look at all tokens of the prompt, computed or not."""
    worker, _ = started(make_worker)
    answers = []
    for _ in range(2):
        stream = worker.submit(request_of(HISTORY, 30, sampling))
        tokens = []
        while new := stream.wait(20):
            tokens += new
        answers.append(tokens)
    assert stream.usage.num_cached_tokens == 128
    assert answers[0] == answers[1]


def test_an_aborted_prompt_leaves_what_it_had_computed(make_worker):
    gate = Gate()
    worker, _ = started(make_worker, before_step=gate)
    stream = worker.submit(request_of(HISTORY, 4))
    gate.wait_for_step()
    gate.allow()
    gate.wait_for_step()  # 64 of 150 are computed, the next chunk is on its way
    stream.abort()
    again = worker.submit(request_of(HISTORY, 4))
    gate.open()
    assert read_all(again) == greedy_continuation(HISTORY, 4, VOCAB_SIZE)
    assert again.usage.num_cached_tokens == 64


def test_cached_pages_give_way_to_live_sequences(make_worker):
    config = EngineConfig(context_len=256, num_pages=8, num_slots=2, chunk_len=64)
    worker, _ = started(make_worker, config)
    run(worker, HISTORY)
    other = [50] * 200
    assert run(worker, other, 50)[0] == greedy_continuation(other, 50, VOCAB_SIZE)
    stats = worker.stats()
    assert (stats.num_pages_evicted, stats.counts.num_preempted) == (4, 0)
    assert run(worker, HISTORY)[1] == 0


def test_the_prefix_of_one_in_the_queue_may_be_evicted_before_its_turn(make_worker):
    config = EngineConfig(context_len=256, num_pages=8, num_slots=1, chunk_len=64)
    gate = Gate()
    worker, _ = make_worker(config, before_step=gate)
    large = worker.submit(request_of([50] * 200, 50))
    waiting = worker.submit(request_of(HISTORY, 5))
    worker.start()
    gate.open()
    read_all(large)
    assert read_all(waiting) == greedy_continuation(HISTORY, 5, VOCAB_SIZE)


def test_a_preempted_sequence_finds_its_own_pages_again(make_worker, monkeypatch):
    monkeypatch.setattr(scheduler, "BEHIND_UNREAD", 10_000)  # one is read after the other here
    """And its usage stays as it was."""
    config = EngineConfig(context_len=256, num_pages=8, num_slots=2, chunk_len=64)
    worker, _ = make_worker(config)
    older, younger = [worker.submit(request_of([i] * 60, 100)) for i in (1, 2)]
    worker.start()
    for i, stream in ((1, older), (2, younger)):
        assert read_all(stream) == greedy_continuation([i] * 60, 100, VOCAB_SIZE)
        assert stream.usage.num_cached_tokens == 0
    counts = worker.stats().counts
    assert counts.num_preempted == 1
    assert counts.num_cached_tokens == 0
    assert 120 < counts.num_prompt_tokens < 120 + 64, "only what was evicted is computed again"
