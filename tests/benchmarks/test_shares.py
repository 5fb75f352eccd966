"""What a case takes of the machine is counted from the model file."""

from __future__ import annotations

import pytest

from benchmarks.cases import DECODE_0, EIGHT, PROMPT_512, Case
from benchmarks.ceiling import Ceiling
from benchmarks.shares import Share, Work, share_of, work_of
from tests.fakes.tiny_gguf import TinyShape, vocabulary, write_tiny_gguf

# Two layers of q, k, v, output, gate, up and down.
LAYERS = 2 * (64 * (128 + 64 + 64) + 128 * 64 + 3 * 64 * 128)
OUTPUT = 64 * len(vocabulary())
CEILING = Ceiling(2, read_gb_s=20.0, multiply_adds_g_s=100.0, amx_multiply_adds_g_s=None)
WORK = Work(read_bytes=10**8, multiply_adds=2 * 10**8, output_multiply_adds=5 * 10**7)


@pytest.mark.parametrize("tied", [True, False])
def test_work(tmp_path, tied):
    """Every matrix once; of a table that is only looked up nothing."""
    work = work_of(write_tiny_gguf(tmp_path / "m.gguf", shape=TinyShape(tied=tied)))
    assert work == Work(2 * (LAYERS + OUTPUT), LAYERS + OUTPUT, OUTPUT)


@pytest.mark.parametrize(
    ("case", "rate", "share"),
    [
        (DECODE_0, 100, Share("reading", 0.5)),
        (EIGHT, 250, Share("multiply-adds", 0.5)),
        (PROMPT_512, 500, Share("multiply-adds", 0.75)),
        (Case("first token", "ttft", 64), 100, None),
    ],
)
def test_share(case, rate, share):
    assert share_of(case, rate, WORK, CEILING) == share
