"""The engine over real backends and small real files: golden continuations, and independence bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from accel.backend import Limits, RankingExecutor
from accel.cpu.backend import CpuBackend
from accel.cuda.backend import CudaBackend
from accel.reference.backend import ReferenceBackend
from inference.engine.config import EngineConfig
from inference.engine.params import SamplingParams
from inference.model.architectures import record
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from tests.inference.engine.driving import GREEDY, request_of
from tests.inference.engine.schedules import run_schedule

BACKENDS = [ReferenceBackend, CpuBackend]
# All prompts of the reference data together need more pages than there are: one has to wait.
CONFIG = EngineConfig(context_len=320, num_pages=18, num_slots=3, chunk_len=32)


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.name)
def run(request, golden):
    """run(file, requests, arrivals, config): tokens of each request over one backend."""
    executors = []

    def run(file, requests, arrivals, config=CONFIG, see=None):
        executor, vocab_size = compiled(golden / "tiny" / file, request.param(), config)
        executors.append(executor)
        kind = RankedExecutor if isinstance(executor, RankingExecutor) else HookedExecutor
        hooked = kind(executor)
        return run_schedule(hooked.with_hook, vocab_size, config, requests, arrivals, see=see)

    yield run
    for executor in executors:
        executor.close()


def compiled(path, backend, config):
    """An executor of a file's model, and the size of its vocabulary."""
    with read_gguf(path) as gguf:
        model, program = record(gguf)
        return backend.compile(fuse(program), limits_of(config), lambda *_: None), model.vocab_size


def limits_of(config):
    return Limits(
        max_rows=config.max_rows,
        max_logit_rows=config.max_logit_rows,
        num_slots=config.num_slots,
        num_pages=config.num_pages,
        max_pages_per_slot=config.max_pages_per_slot,
    )


class HookedExecutor:
    """Calls `before_step(n)` before each step of another executor."""

    def __init__(self, executor):
        self.executor, self.num_steps = executor, 0
        self.num_in_flight = executor.num_in_flight

    def with_hook(self, before_step):
        self.before_step = before_step
        return self

    def start(self, batch):
        self.before_step(self.num_steps)
        self.num_steps += 1
        self.executor.start(batch)

    def finish(self):
        return self.executor.finish()


class RankedExecutor(HookedExecutor):
    """Of an executor that tells the likeliest tokens."""

    def __init__(self, executor):
        super().__init__(executor)
        self.memory, self.best, self.close = executor.memory, executor.best, executor.close


@pytest.mark.parametrize("stem", ["qwen2.f16", "gemma3-scaled.f16", "llama-rope-yarn.f16"])
def test_greedy_continuations_are_the_golden_ones(run, golden, stem):
    """Three prompts at once, in chunks, up to the first near tie of the reference."""
    with np.load(golden / "tiny" / f"{stem}.npz") as reference:
        prompts = ["short", "english", "mixed"]
        requests = [request_of(reference[f"ids/{p}"].tolist(), 32) for p in prompts]
        results = run(f"{stem}.gguf", requests, [0, 0, 1])
        num_compared = 0
        for prompt, tokens in zip(prompts, results, strict=True):
            of_prompt = f"exact/kvf16/{prompt}"
            near_tie = reference[f"{of_prompt}/greedy_margin"] < 0.05
            count = int(near_tie.argmax()) if near_tie.any() else 32
            expected = reference[f"{of_prompt}/greedy_ids"].tolist()
            num_compared += count
            assert [t.id for t in tokens][:count] == expected[:count]
    assert num_compared > 60


@pytest.mark.parametrize("file", ["qwen3.Q4_0.gguf", "gemma3-scaled.f16.gguf"])
def test_tokens_and_logprobs_are_the_same_alone_and_among_others(run, file):
    """Equal floats, so equal logits: whatever the neighbours, the order and the chunk length."""
    sampled = SamplingParams(temperature=1.0, top_p=0.95, seed=5, num_logprobs=3)
    exact = SamplingParams(temperature=0.0, num_logprobs=3)
    lengths = [1, 7, 33, 64, 100]
    requests = [
        request_of([(11 * i + 3 * j) % 250 for j in range(length)], 12, sampling)
        for i, (length, sampling) in enumerate(
            zip(lengths, [sampled, exact, sampled, exact, GREEDY], strict=True)
        )
    ]
    alone = EngineConfig(context_len=128, num_pages=4, num_slots=1, chunk_len=128)
    expected = [run(file, [request], [0], alone)[0] for request in requests]
    for chunk_len, arrivals in ((16, [0, 0, 0, 0, 0]), (5, [9, 4, 2, 0, 7]), (64, [3, 3, 0, 1, 0])):
        config = EngineConfig(context_len=128, num_pages=16, num_slots=4, chunk_len=chunk_len)
        assert run(file, requests, arrivals, config) == expected


@pytest.mark.parametrize("file", ["qwen3.Q4_0.gguf", "gemma3-scaled.f16.gguf"])
def test_tokens_and_logprobs_are_the_same_after_a_preemption(run, file):
    """What was decoded token by token is computed again as a prompt."""
    sampled = SamplingParams(temperature=0.9, seed=3, frequency_penalty=0.4, num_logprobs=2)
    requests = [request_of([7 + i] * (20 + i), 70, sampled) for i in range(3)]
    alone = EngineConfig(context_len=128, num_pages=4, num_slots=1, chunk_len=128)
    expected = [run(file, [request], [0], alone)[0] for request in requests]
    config = EngineConfig(context_len=128, num_pages=5, num_slots=3, chunk_len=16)
    stats = []
    assert run(file, requests, [0, 0, 0], config, see=stats.append) == expected
    assert stats[0].counts.num_preempted >= 1


@pytest.mark.parametrize("file", ["qwen3.Q4_0.gguf", "gemma3-scaled.f16.gguf"])
def test_tokens_and_logprobs_are_the_same_after_a_cache_hit(run, file):
    """The second turn of a conversation, with the first one's pages and without."""
    exact = SamplingParams(temperature=0.0, num_logprobs=3)
    sampled = SamplingParams(temperature=1.1, top_p=0.9, seed=4, num_logprobs=3)
    config = EngineConfig(context_len=192, num_pages=12, num_slots=2, chunk_len=24)
    alone = EngineConfig(context_len=192, num_pages=6, num_slots=1, chunk_len=192)
    first = request_of([(13 * i) % 250 for i in range(50)], 30, exact)
    answer = [token.id for token in run(file, [first], [0], alone)[0]]
    second = request_of([*first.prompt_ids, *answer, 3, 4, 5], 20, sampled)
    stats = []
    results = run(file, [first, second], [0, 10**9], config, see=stats.append)
    assert results[1] == run(file, [second], [0], alone)[0]
    assert stats[0].counts.num_cached_tokens == 64


def test_a_split_model_gives_the_tokens_of_one_die(emulated, golden):
    """With two steps in flight, prompts in chunks beside decodes, and a preemption."""
    exact = SamplingParams(temperature=0.0, num_logprobs=2)
    sampled = SamplingParams(temperature=0.9, seed=3, frequency_penalty=0.4)
    requests = [
        request_of([7 + i] * (1 + 15 * i), 40, sampling)
        for i, sampling in enumerate([exact, sampled, GREEDY, sampled])
    ]
    config = EngineConfig(context_len=96, num_pages=6, num_slots=3, chunk_len=16)
    results, stats = [], []
    for num_dies in (1, 2):
        emulated.reset(num_dies=2, lazy=True, poison=True)
        backend = CudaBackend(range(num_dies))
        executor, vocab_size = compiled(golden / "tiny" / "qwen3.Q4_0.gguf", backend, config)
        with_hook = HookedExecutor(executor).with_hook
        results.append(
            run_schedule(with_hook, vocab_size, config, requests, [0, 0, 1, 9], see=stats.append)
        )
        executor.close()
    assert results[0] == results[1]
    assert stats[1].counts.num_preempted >= 1
    assert stats[1].counts.num_steps > stats[0].counts.num_steps, "a step had all rows"
