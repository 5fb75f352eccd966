"""The engine over dies that are asked gives the tokens of one that has the logits, and little crosses."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cuda.backend import CudaBackend
from accel.survey import Survey, SurveyingExecutor
from inference.engine.config import EngineConfig
from inference.engine.params import SamplingParams
from inference.model.builder import Builder
from inference.model.fusion import fuse
from tests.accel.cpu.models import (
    Attention,
    attention_program,
    batch,
    float_weight,
    limits,
    shuffled_pages,
)
from tests.inference.engine.driving import GREEDY, request_of
from tests.inference.engine.schedules import run_schedule
from tests.inference.engine.test_backends import HookedExecutor, compiled, limits_of

CONFIG = EngineConfig(context_len=96, num_pages=9, num_slots=3, chunk_len=16)
KIB = 1024
SAMPLINGS = [
    GREEDY,
    SamplingParams(seed=1),
    SamplingParams(seed=2, temperature=0.7, top_p=0.9),
    SamplingParams(seed=3, top_k=40, min_p=0.01),
    SamplingParams(seed=4, temperature=0.8, repeat_penalty=1.3, frequency_penalty=0.4, top_p=0.95),
    SamplingParams(temperature=0, presence_penalty=1.0, logit_bias={5: 3.0, 6: -100.0}),
]


class SurveyedExecutor(HookedExecutor):
    """With the other way to run a step as well."""

    @property
    def traffic(self):
        return self.executor.traffic

    @property
    def memory(self):
        return self.executor.memory

    def start_surveyed(self, batch, surveys):
        self.before_step(self.num_steps)
        self.num_steps += 1
        self.executor.start_surveyed(batch, surveys)

    def finish_surveyed(self):
        return self.executor.finish_surveyed()

    def logits(self, row, first, end):
        return self.executor.logits(row, first, end)

    def close(self):
        self.executor.close()


def both(executor, vocab_size, requests):
    """Tokens by logits and by answers."""
    return [
        run_schedule(kind(executor).with_hook, vocab_size, CONFIG, requests, [0] * len(requests))
        for kind in (HookedExecutor, SurveyedExecutor)
    ]


def test_a_large_vocabulary(dies):
    """Every kind of request: the same tokens, at most 8 KiB a token, and no row fetched."""
    dies(1)
    vocab_size, b = 20_000, Builder()
    x = b.take_logit_rows(b.embed(float_weight(vocab_size, 32, 1, scale=1.0)))
    program = fuse(b.finish(b.matmul(x, float_weight(vocab_size, 32, 2, scale=0.9))))
    executor = CudaBackend((0,)).compile(program, limits_of(CONFIG), lambda *_: None)
    assert isinstance(executor, SurveyingExecutor)
    requests = [request_of([3 * i + 1], 4, sampling) for i, sampling in enumerate(SAMPLINGS)]
    by_logits, by_answers = both(executor, vocab_size, requests)
    assert by_answers == by_logits
    traffic = executor.traffic
    assert traffic.num_rows == 4 * len(SAMPLINGS)
    assert traffic.num_answer_bytes < 8 * KIB * traffic.num_rows
    assert traffic.num_logits == 0
    executor.close()


@pytest.mark.parametrize("num_dies", [1, 2])
def test_logprobs_and_fetched_rows(dies, golden, num_dies):
    """Prompts in chunks beside decodes, two steps in flight on two dies; typical_p needs whole rows."""
    dies(num_dies)
    samplings = [
        SamplingParams(temperature=0, num_logprobs=3),
        SamplingParams(seed=5, typical_p=0.7, num_logprobs=0),
        SamplingParams(seed=6, top_p=0.9, num_logprobs=2, frequency_penalty=0.5),
        SamplingParams(seed=7, typical_p=0.5),
    ]
    requests = [request_of([7 + i] * (1 + 15 * i), 12, s) for i, s in enumerate(samplings)]
    backend = CudaBackend(range(num_dies))
    executor, vocab_size = compiled(golden / "tiny" / "qwen3.Q4_0.gguf", backend, CONFIG)
    by_logits, by_answers = both(executor, vocab_size, requests)
    for expected, got in zip(by_logits, by_answers, strict=True):
        assert [token.id for token in got] == [token.id for token in expected]
        for one, other in zip(expected, got, strict=True):
            if one.logprobs is not None:
                assert other.logprobs.logprob == pytest.approx(one.logprobs.logprob, abs=1e-5)
                assert [i for i, _ in other.logprobs.top] == [i for i, _ in one.logprobs.top]
    executor.close()


def test_a_wide_step_in_parts(dies):
    """Rows that want logits in several parts of a step on two dies: all are surveyed, and can be fetched."""
    dies(2)
    sizes = limits(96, num_slots=2, max_rows=96, max_logit_rows=4)
    program = attention_program(Attention(), num_layers=4)
    executor = CudaBackend((0, 1)).compile(program, sizes, lambda *_: None)
    ids, wanted = np.arange(80) % 70, [3, 40, 41, 79]
    step = batch(ids, np.arange(80), np.zeros(80), wanted, shuffled_pages(sizes))
    executor.start(step)
    expected = executor.finish().copy()
    executor.start_surveyed(step, [Survey(row) for row in range(4)])
    executor.start_surveyed(step, [Survey(row) for row in (2, 0)])
    for rows in ([0, 1, 2, 3], [2, 0]):
        found = executor.finish_surveyed()
        assert [f.best for f in found] == expected[rows].argmax(axis=1).tolist()
        np.testing.assert_array_equal(executor.logits(1, 0, 72), expected[1])
        np.testing.assert_array_equal(executor.logits(3, 10, 12), expected[3, 10:12])
    executor.close()
