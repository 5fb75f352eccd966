"""Cuts of a program: everything once, in order, with one buffer across, at about equal weights."""

from __future__ import annotations

from itertools import pairwise

import pytest

from accel.cuda.split import split
from tests.accel.cpu.models import Attention, attention_program

PROGRAM = attention_program(Attention(), num_layers=8)


@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
def test_every_op_once(num_stages):
    stages = split(PROGRAM, num_stages)
    assert len(stages) == num_stages
    assert [op for stage in stages for op in stage.ops] == list(PROGRAM.ops)


@pytest.mark.parametrize("num_stages", [2, 3, 4])
def test_one_buffer_crosses(num_stages):
    """A stage reads what it made itself, and the one buffer it received."""
    stages = split(PROGRAM, num_stages)
    assert stages[0].received is None
    assert stages[-1].sent is None
    for stage in stages:
        made = {op.output for op in stage.ops} | {stage.received}
        assert all(buffer in made for op in stage.ops for buffer in op.inputs)
    for before, after in pairwise(stages):
        assert before.sent is after.received
        assert before.sent in {op.output for op in before.ops}


def test_stages_of_about_equal_weight():
    """No stage of a program of equal layers has more than a layer more than another."""
    sizes = [
        sum(part.tensor.num_bytes for op in stage.ops for w in op.weights for part in w.parts)
        for stage in split(PROGRAM, 2)
    ]
    assert max(sizes) < 1.3 * min(sizes)
