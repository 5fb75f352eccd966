"""What a program becomes: how many launches, and which norms are folded into matmuls."""

from __future__ import annotations

from collections import Counter

import pytest

from accel.cuda.backend import plan_stages
from inference.model.architectures import record
from inference.model.builder import Builder
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from tests.accel.cpu.models import Attention, attention_program, float_weight, limits, vector
from tests.fakes.tiny_gguf import TinyShape, write_tiny_gguf

LIMITS = limits(64, num_slots=2)


def launches(program):
    (plan,) = plan_stages(program, LIMITS, 1)
    return Counter(op.label for op in plan.lowered.ops)


@pytest.mark.parametrize(
    ("arch", "a_layer"), [("llama", 7), ("qwen2", 7), ("qwen3", 7), ("gemma3", 9)]
)
def test_launches_a_layer(tmp_path, arch, a_layer):
    """Seven where norms precede, nine where two more follow; one embedding and one output besides."""
    counts = []
    for num_layers in (6, 12):
        path = write_tiny_gguf(tmp_path / f"{num_layers}.gguf", arch, "Q8_0", TinyShape(num_layers))
        with read_gguf(path) as file:
            counts.append(launches(fuse(record(file)[1])).total())
    assert counts[1] - counts[0] == 6 * a_layer
    assert counts[0] == 6 * a_layer + 2


def test_norms_that_matmuls_read_are_folded():
    assert launches(attention_program(Attention(), num_layers=3))["rms_norm"] == 0


def test_norm_that_somebody_else_reads_too():
    """It is computed once, and everybody reads that."""
    b = Builder()
    x = b.embed(float_weight(40, 32, 1))
    a = b.rms_norm(x, vector(32, 2), 1e-5)
    y = b.take_logit_rows(b.add(b.matmul(a, float_weight(32, 32, 3)), a))
    program = fuse(b.finish(b.matmul(y, float_weight(40, 32, 4))))
    assert launches(program)["rms_norm"] == 1
