"""A sequence's logits do not depend on threads, chunks, neighbours or pages, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from accel.backend import run_step
from accel.cpu.backend import CpuBackend
from inference.model.architectures import ARCHITECTURES
from inference.model.builder import Builder
from kernels.specs.tensor import Part, Weight
from tests.accel.cpu.models import (
    batch,
    compile_file,
    float_weight,
    limits,
    run_prompt,
    shuffled_pages,
    silent,
)
from tests.fakes.tiny_gguf import write_tiny_gguf
from tests.kernels.cpu.calls import random_tensor

LENGTH = 290  # more than one run of positions
CHUNKS = (1, 2, 3, 5, 8, 9, 24, 64)
VOCAB_SIZE = 256
MODELS = [(arch, "Q8_0") for arch in sorted(ARCHITECTURES)] + [("llama", "F16"), ("gemma3", "Q4_0")]
QUANTS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "BF16", "F32"]


def tokens(n, seed=0):
    return np.random.default_rng(seed).integers(0, VOCAB_SIZE, n)


@pytest.fixture(scope="module", params=MODELS, ids="-".join)
def path(request, tmp_path_factory):
    arch, quant = request.param
    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "m.gguf", arch, quant)


def decode_among_others(executor, of):
    """Slot 4 row by row, beside ragged chunks of seven other slots; its logits."""
    rng, at, out = np.random.default_rng(1), np.zeros(8, int), []
    mine, table = tokens(LENGTH), shuffled_pages(of)
    while at[4] < LENGTH:
        rows = []
        for slot in rng.permutation(8):
            n = 1 if slot == 4 else int(rng.integers(0, 6))
            if at[slot] + n > LENGTH:
                at[slot] = 0
            ids = mine[at[4] : at[4] + 1] if slot == 4 else rng.integers(0, VOCAB_SIZE, n)
            rows += [(id, at[slot] + i, slot) for i, id in enumerate(ids)]
            at[slot] += n
        ids, positions, slots = zip(*rows, strict=True)
        out.append(
            run_step(executor, batch(ids, positions, slots, [slots.index(4)], table))[0].copy()
        )
    return np.array(out)


def test_chunks_threads_and_neighbours(path):
    """One to three threads, any chunk, alone or among seven others: the same bits."""
    first = None
    for num_threads in (1, 2, 3):
        of = limits(LENGTH, num_threads)
        executor = compile_file(path, of)
        runs = {
            chunk_len: run_prompt(executor, tokens(LENGTH), of, chunk_len) for chunk_len in CHUNKS
        }
        runs["among others"] = decode_among_others(executor, of)
        executor.close()
        for how, got in runs.items():
            first = got if first is None else first
            np.testing.assert_array_equal(got, first, err_msg=f"{num_threads} threads, {how}")


def one_matmul(quant):
    """A table, and a matrix of random rows in the format."""
    b = Builder()
    x = b.embed(float_weight(VOCAB_SIZE, 256, 1, scale=1.0))
    matrix = Weight("w", (Part(random_tensor(quant, 80, 256)),))
    return b.finish(b.matmul(b.take_logit_rows(x), matrix))


@pytest.mark.parametrize("quant", QUANTS)
def test_every_format(quant):
    """Tiles of every size, for every weight format: the same bits from chunks of one and of 61."""
    of = limits(96, num_slots=1)
    executor = CpuBackend().compile(one_matmul(quant), of, silent)
    single = run_prompt(executor, tokens(61), of, 1)
    assert np.isfinite(single).all() and single.std() > 0
    for chunk_len in (2, 7, 61):
        np.testing.assert_array_equal(run_prompt(executor, tokens(61), of, chunk_len), single)
    executor.close()


def test_threads_may_change_between_steps(tmp_path):
    """A step on one thread after a stall gives what all threads give."""
    path = write_tiny_gguf(tmp_path / "m.gguf", "qwen3", "Q8_0")
    of = limits(96, 3, num_slots=1)
    executor = compile_file(path, of)
    whole = run_prompt(executor, tokens(60), of, 20)
    numbers = iter([1, 3, 2])
    executor._company.num_threads = lambda: next(numbers)
    np.testing.assert_array_equal(run_prompt(executor, tokens(60), of, 20), whole)
    executor.close()
