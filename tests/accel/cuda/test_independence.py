"""A sequence's logits do not depend on chunks, neighbours, pages or the number of dies, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from accel.backend import run_step
from inference.model.architectures import ARCHITECTURES
from tests.accel.cpu.models import batch, limits, run_prompt, shuffled_pages
from tests.accel.cuda.models import compile_file
from tests.fakes.tiny_gguf import write_tiny_gguf

LENGTH = 264  # more than one run of positions
VOCAB_SIZE = 256
LIMITS = limits(LENGTH, num_slots=3)
CHUNKS = (7, 64)


def tokens(n, seed=0):
    return np.random.default_rng(seed).integers(0, VOCAB_SIZE, n)


def decode_among_others(executor, prefix, until):
    """Slot 1 row by row after a prompt, beside ragged chunks of two other slots; its logits."""
    rng, at, out = np.random.default_rng(1), np.zeros(3, int), []
    mine, table = tokens(LENGTH), shuffled_pages(LIMITS)
    run_prompt(executor, mine[:prefix], LIMITS, 64, slot=1)
    for position in range(prefix, until):
        rows = []
        for slot in rng.permutation(3):
            if slot == 1:
                rows.append((mine[position], position, 1))
                continue
            n = int(rng.integers(0, 6))
            rows += [
                (token, at[slot] + i, slot)
                for i, token in enumerate(rng.integers(0, VOCAB_SIZE, n))
            ]
            at[slot] += n
        ids, positions, slots = zip(*rows, strict=True)
        out.append(
            run_step(executor, batch(ids, positions, slots, [slots.index(1)], table))[0].copy()
        )
    return np.array(out)


@pytest.mark.parametrize(
    ("arch", "quant"),
    [(arch, "Q8_0") for arch in sorted(ARCHITECTURES)] + [("llama", "Q4_0"), ("gemma3", "F16")],
)
def test_chunks_neighbours_and_dies(emulated, tmp_path, arch, quant):
    """Any chunk, alone or among others, on one die or two: the same bits."""
    emulated.reset(num_dies=2)
    path = write_tiny_gguf(tmp_path / "m.gguf", arch, quant)
    first = None
    for num_dies in (1, 2):
        executor = compile_file(path, LIMITS, num_dies)
        for chunk_len in CHUNKS:
            got = run_prompt(executor, tokens(LENGTH), LIMITS, chunk_len)
            first = got if first is None else first
            np.testing.assert_array_equal(got, first, err_msg=f"{num_dies} dies, {chunk_len}")
        got = decode_among_others(executor, 250, LENGTH)
        np.testing.assert_array_equal(got, first[250:], err_msg=f"{num_dies} dies, among others")
        executor.close()
