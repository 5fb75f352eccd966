"""Step buffers share memory only when they are never alive together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accel.cuda.buffers import buffer_bytes, place_buffers, stride_of
from inference.model.builder import Builder
from tests.accel.cpu.models import Attention, attention_program, float_weight, limits, vector

LIMITS = limits(64, num_slots=2)
TABLE = float_weight(8, 32, 1)


def lives(ops, kept):
    """First and last op that touch each buffer."""
    spans = {}
    for at, op in enumerate(ops):
        for buffer in (op.output, *op.inputs):
            spans[buffer] = (spans.get(buffer, (at,))[0], at)
    return spans | {buffer: (spans[buffer][0], len(ops)) for buffer in kept}


def assert_apart(ops, kept):
    places, spans = place_buffers(ops, kept, None, LIMITS), lives(ops, kept)
    (area,) = {place.area for place in places.values()}
    for a, place in places.items():
        end = place.offset + buffer_bytes(a, LIMITS)
        assert end <= area.num_bytes
        for b, other in places.items():
            together = spans[a][0] <= spans[b][1] and spans[b][0] <= spans[a][1]
            if a is not b and together:
                assert end <= other.offset or other.offset + buffer_bytes(b, LIMITS) <= place.offset
    return area.num_bytes


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_no_two_that_live_together_overlap(pairs):
    """Sums of buffers made up to five ops before, in any pattern."""
    b = Builder()
    made = [b.add_bias(b.embed(TABLE), vector(32, 0))]
    for i, j in pairs:
        made.append(b.add(made[-1 - i % len(made)], made[-1 - j % len(made)]))
    program = b.finish(made[-1])
    assert_apart(program.ops, (program.logits,))


def test_depth_costs_nothing():
    """A deeper model of the same widths needs no more step memory."""
    sizes = [
        assert_apart(program.ops, (program.logits,))
        for program in (attention_program(Attention(), num_layers=n) for n in (2, 12))
    ]
    assert sizes[0] == sizes[1]


def test_rows_start_on_whole_vectors():
    """Kernels read 16 bytes at a time."""
    for op in attention_program(Attention()).ops:
        assert stride_of(op.output) % 4 == 0
        assert 0 <= stride_of(op.output) - op.output.width < 4
