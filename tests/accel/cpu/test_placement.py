"""Areas of step memory: those that are alive together share no byte; others may."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accel.cpu.placement import Capacity, lifetimes, place
from accel.cpu.records import Access, Area, MachineOp
from kernels.specs.program import Rows

CAPACITY = Capacity(step_rows=40, logit_rows=4, narrow_copies=24)


def op(reads, writes):
    return MachineOp(
        "k", Rows.STEP, tuple(map(Access.whole, reads)), tuple(map(Access.whole, writes))
    )


areas = st.builds(
    Area,
    st.just("a"),
    st.sampled_from([Rows.STEP, Rows.LOGITS, 3]),
    st.integers(1, 8).map(lambda lines: 64 * lines),
    st.booleans(),
)


@st.composite
def programs(draw):
    """Each op reads some earlier outputs and writes an area of its own."""
    pool = draw(st.lists(areas, min_size=1, max_size=12))
    ops = []
    for i, area in enumerate(pool):
        read = draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True)) if i else []
        ops.append(op([pool[r] for r in read], [area]))
    return ops


@given(programs())
def test_alive_together_apart_in_memory(ops):
    """Two areas whose lives meet never overlap, and all lie within the memory."""
    placement, lives = place(ops, CAPACITY), lifetimes(ops)
    for a, span in placement.spans.items():
        assert span.start % 64 == 0
        assert span.end - span.start == CAPACITY.num_bytes(a)
        assert 0 <= span.start < span.end <= placement.num_bytes
        for b, other in placement.spans.items():
            if a is not b and lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]:
                assert not span.overlaps(other)


@given(programs())
def test_private_areas_share_with_their_like_only(ops):
    """A private area overlaps areas of the same shape only, so threads' copies never cross."""
    spans = place(ops, CAPACITY).spans
    for a, span in spans.items():
        for b, other in spans.items():
            if a is not b and (a.private or b.private) and span.overlaps(other):
                assert (a.private, a.row_bytes, a.rows) == (b.private, b.row_bytes, b.rows)


def test_a_chain_needs_two_areas():
    """In a chain of ops only input and output are alive: memory does not grow with its length."""
    chain = [Area(f"{i}", Rows.STEP, 64) for i in range(20)]
    ops = [op(chain[i : i + 1], chain[i + 1 : i + 2]) for i in range(19)]
    assert place(ops, CAPACITY).num_bytes == 2 * 64 * CAPACITY.step_rows


def test_private_areas_hold_a_copy_per_thread():
    """With few step rows, the copies of narrow steps decide the size."""
    area = Area("a", Rows.LOGITS, 64, private=True)
    assert CAPACITY.num_bytes(area) == 24 * 64
