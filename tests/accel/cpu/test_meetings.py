"""Threads meet exactly where one may touch bytes that another has not finished with."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from accel.cpu.meetings import MODES, meeting_bits
from accel.cpu.placement import Capacity, place
from accel.cpu.records import Access, Area, MachineOp
from kernels.specs.program import Rows

CAPACITY = Capacity(step_rows=32, logit_rows=32, narrow_copies=16)
NARROW = MODES.index(next(m for m in MODES if m.narrow and m.any_logits and m.narrow_logits))
WIDE = MODES.index(next(m for m in MODES if not m.narrow and not m.narrow_logits))


def area(name, private=False, rows=Rows.STEP, row_bytes=128):
    return Area(name, rows, row_bytes, private)


def op(reads, writes, rows=Rows.STEP):
    def access(what):
        return what if isinstance(what, Access) else Access.whole(what)

    return MachineOp("k", rows, tuple(map(access, reads)), tuple(map(access, writes)))


def meetings(ops, mode):
    bits = meeting_bits(ops, place(ops, CAPACITY))
    return [i for i, b in enumerate(bits) if b >> mode & 1]


def test_a_reader_waits_for_the_writer():
    """The op that makes a shared area is followed by a meeting before its reader."""
    a, b = area("a"), area("b")
    assert meetings([op([], [a]), op([a], [b])], WIDE) == [0]


def test_private_rows_need_no_meeting_in_a_narrow_step():
    """A thread that made its own copy goes on at once; in a wide step it waits for the others' rows."""
    a, b = area("a", private=True), area("b")
    ops = [op([], [a]), op([a], [b])]
    assert meetings(ops, NARROW) == []
    assert meetings(ops, WIDE) == [0]


def test_pieces_of_one_stacked_matmul_need_no_meeting():
    """Ops that write different columns of one area run on; one that writes the same columns waits."""
    x, y = area("x"), area("y", row_bytes=256)
    left, right = Access(y, 0, 128), Access(y, 128, 256)
    assert meetings([op([x], [left]), op([x], [right])], WIDE) == []
    assert meetings([op([x], [left]), op([x], [left])], WIDE) == [0]


def test_reused_memory_waits_for_its_last_reader():
    """An area placed where another lay is not written before all threads have read that."""
    a, b, c, d = (area(name) for name in "abcd")
    ops = [op([], [a]), op([a], [b]), op([], [c]), op([b, c], [d])]
    spans = place(ops, CAPACITY).spans
    assert spans[a].overlaps(spans[c])
    assert 1 in meetings(ops, WIDE)


def test_kv_pages_order_their_readers():
    """Attention waits for appended keys, though pages are no step memory."""
    kv, out = area("kv", row_bytes=0), area("out")
    assert meetings([op([], [kv]), op([kv], [out])], WIDE) == [0]


def test_ops_over_logit_rows_may_be_skipped():
    """Without logits an op over logit rows does not run, so the meeting is at an op that does."""
    a, b, c = area("a"), area("b", rows=Rows.LOGITS), area("c")
    ops = [op([], [a]), op([], [b], Rows.LOGITS), op([a], [c])]
    no_logits = MODES.index(next(m for m in MODES if not m.narrow and not m.any_logits))
    assert meetings(ops, no_logits) == [0]
    assert meetings(ops, WIDE) == [1]


@st.composite
def programs(draw):
    pool = [
        Area(f"{i}", draw(st.sampled_from([Rows.STEP, Rows.LOGITS])), 128, draw(st.booleans()))
        for i in range(6)
    ]
    index = st.integers(0, 5)
    half = st.sampled_from([(0, 64), (64, 128), (0, 128)])
    accesses = st.lists(st.builds(lambda i, h: Access(pool[i], *h), index, half), max_size=2)
    rows = st.sampled_from([Rows.STEP, Rows.LOGITS])
    return draw(st.lists(st.builds(op, accesses, accesses, rows), min_size=2, max_size=10))


@given(programs())
def test_every_hazard_has_a_meeting_between(ops):
    """For any two ops that run and may touch the same bytes, one writing: a meeting lies between them."""
    placement = place(ops, CAPACITY)
    bits = meeting_bits(ops, placement)
    for m, mode in enumerate(MODES):
        running = [i for i, o in enumerate(ops) if mode.any_logits or o.rows is Rows.STEP]
        for i, j in itertools.combinations(running, 2):
            if hazard(ops[i], ops[j], placement, mode):
                assert any(bits[k] >> m & 1 for k in running if i <= k < j)


def hazard(first, second, placement, mode):
    pairs = [(w, o) for w in first.writes for o in (*second.reads, *second.writes)]
    pairs += [(r, w) for r in first.reads for w in second.writes]
    return any(touch(a, b, placement, mode) for a, b in pairs)


def touch(a, b, placement, mode):
    def per_thread(x):
        return x.private and (mode.narrow if x.rows is Rows.STEP else mode.narrow_logits)

    if per_thread(a.area) or per_thread(b.area):
        return False
    if a.area is b.area:
        return max(a.first, b.first) < min(a.end, b.end)
    return placement.spans[a.area].overlaps(placement.spans[b.area])
