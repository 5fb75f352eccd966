from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.config import EngineConfig
from inference.engine.errors import BrokenInvariant, QueueFull
from inference.engine.scheduler import MAX_UNREAD, Scheduler
from inference.engine.sequence import Sequence, State
from inference.engine.stats import WorkerCounts
from inference.engine.stream import StreamFeed
from tests.inference.engine.driving import request_of


def scheduler_of(config):
    return Scheduler(config, WorkerCounts())


_unlike = itertools.count(1)


def sequence_of(num_prompt, max_tokens, queued_at_s=0.0, token=None, tenant=""):
    """A prompt of one repeated token, by default one that no other prompt has."""
    prompt = [next(_unlike) if token is None else token] * num_prompt
    return Sequence(request_of(prompt, max_tokens, tenant=tenant), StreamFeed(), queued_at_s)


def run_step(scheduler):
    """One step with every token sampled as 0; the plan that ran, and who finished."""
    plan = scheduler.plan()
    return plan, commit(scheduler, plan)


def commit(scheduler, plan):
    """What follows a step of that plan; who finished."""
    if plan.prompt is not None:
        scheduler.prefilled(plan.prompt, plan.end)
    finished = [s for s in plan.wanting_logits if s.append(0, 0.0) is not None]
    for sequence in finished:
        scheduler.remove(sequence)
    return finished


def test_a_free_slot_is_taken_at_once_with_the_pages_of_the_prompt():
    scheduler = scheduler_of(EngineConfig(context_len=256, num_pages=10, num_slots=2))
    sequence = sequence_of(40, 200)
    scheduler.add(sequence)
    assert (sequence.state, sequence.slot, len(sequence.pages)) == (State.PREFILL, 0, 2)
    assert scheduler.pages.num_free == 8


@pytest.mark.parametrize("what", ["page", "add", "wait", "remove", "pause"])
def test_a_plan_lasts_until_somebody_comes_goes_pauses_or_needs_a_page(what):
    scheduler = scheduler_of(EngineConfig(context_len=256, num_pages=30, num_slots=3))
    first, other = sequence_of(10, 100), sequence_of(10, 100)
    scheduler.add(first), scheduler.add(other)
    run_step(scheduler), run_step(scheduler)
    lasting, _ = run_step(scheduler)
    for _ in range(18):
        assert run_step(scheduler)[0] is lasting
    assert lasting.decodes == (first, other)
    if what == "page":
        for _ in range(4):
            run_step(scheduler)
        assert [s.num_ids for s in (first, other)] == [35, 34]
        assert [len(s.pages) for s in (first, other)] == [2, 2]
    elif what == "add":
        scheduler.add(third := sequence_of(10, 100))
        assert (scheduler.plan().decodes, scheduler.plan().prompt) == ((first, other), third)
    elif what == "wait":
        scheduler.add(sequence_of(10, 100)), scheduler.add(waiting := sequence_of(10, 100))
        run_step(scheduler)
        assert waiting.state is State.WAITING
        scheduler.remove(first)
        assert scheduler.plan().prompt is waiting
    elif what == "remove":
        scheduler.remove(first)
        assert scheduler.plan().decodes == (other,)
    else:
        scheduler.unread(first, MAX_UNREAD)
        assert scheduler.plan().decodes == (other,)
        scheduler.unread(first, 0)
        assert scheduler.plan().decodes == (first, other)


def test_pages_are_taken_as_a_sequence_grows():
    scheduler = scheduler_of(EngineConfig(context_len=256, num_pages=10))
    sequence = sequence_of(30, 100)
    scheduler.add(sequence)
    num_pages = []
    for _ in range(36):
        run_step(scheduler)
        num_pages.append(len(sequence.pages))
    # The prompt's step, rows at 30 and 31, 32 rows of the second page, and one of the third.
    assert num_pages == [1] * 3 + [2] * 32 + [3]


def test_as_many_requests_run_as_their_prompts_fit_whatever_their_limit():
    """Two default chat requests may each ask for the rest of the context; eight must run all the same."""
    scheduler = scheduler_of(EngineConfig(context_len=8192, num_pages=512))
    sequences = [sequence_of(100, 8092) for _ in range(8)]
    for sequence in sequences:
        scheduler.add(sequence)
    assert [s.state for s in sequences] == [State.PREFILL] * 8


def test_the_youngest_gives_way_when_pages_run_out_and_goes_first_in_the_queue():
    config = EngineConfig(context_len=128, num_pages=4, num_slots=3, prefix_cache=False)
    scheduler = scheduler_of(config)
    oldest, youngest = sequence_of(32, 90), sequence_of(32, 90)
    scheduler.add(oldest)
    run_step(scheduler)
    scheduler.add(youngest)
    while scheduler.pages.num_free:
        run_step(scheduler)
    late = sequence_of(1, 1)
    scheduler.add(late)
    assert late.state is State.WAITING
    while youngest.state is State.DECODE:
        run_step(scheduler)
    assert (oldest.state, len(oldest.pages)) == (State.DECODE, 3)
    assert (youngest.state, youngest.pages, youngest.num_computed) == (State.WAITING, [], 0)
    known = youngest.num_ids
    scheduler.remove(oldest)
    assert youngest.state is State.PREFILL, "before the one that came later"
    assert len(youngest.pages) == -(-known // 32)
    plan, _ = run_step(scheduler)
    assert (plan.prompt, plan.start, plan.end, plan.ends_prompt) == (youngest, 0, known, True)
    assert youngest.num_ids == known + 1


def test_a_preempted_sequence_publishes_again_what_had_to_be_computed_again():
    config = EngineConfig(context_len=128, num_pages=4, num_slots=2)
    scheduler = scheduler_of(config)
    older, younger = sequence_of(32, 90), sequence_of(32, 90)
    for sequence in (older, younger):
        scheduler.add(sequence)
    while younger.state is not State.WAITING:
        run_step(scheduler)
    while scheduler.pages.find(younger.page_names()):  # until the older one has taken it all
        run_step(scheduler)
    scheduler.remove(older)
    while scheduler.pages.num_cached:
        scheduler.pages.take(1)
    plan, _ = run_step(scheduler)
    assert (plan.prompt, plan.start) == (younger, 0)
    assert scheduler.pages.find(younger.page_names()) == younger.pages[: younger.num_computed // 32]


def test_pages_saved_by_a_shared_prefix_let_the_queue_move_up():
    """The third waits for pages only until the second has found that it needs few of its own."""
    config = EngineConfig(context_len=384, num_pages=12, num_slots=4, chunk_len=64)
    scheduler = scheduler_of(config)
    sequences = [sequence_of(150, 20, token=5) for _ in range(3)]
    for sequence in sequences:
        scheduler.add(sequence)
    states = []
    for _ in range(5):
        run_step(scheduler)
        states.append(sequences[2].state)
    assert states == [State.WAITING] * 4 + [State.DECODE]


def test_a_prompt_is_not_seated_just_to_be_preempted():
    """The older sequences' growth while it is computed is left to them."""
    config = EngineConfig(context_len=256, num_pages=8, num_slots=4, chunk_len=2)
    scheduler = scheduler_of(config)
    older, prompt = sequence_of(32, 200), sequence_of(129, 2)
    scheduler.add(older)
    scheduler.add(prompt)
    assert prompt.state is State.WAITING, (
        "5 pages for itself, 3 for the older one's 65 steps, 7 free"
    )


def test_the_preempted_wait_without_limit_and_take_no_place_of_others():
    config = EngineConfig(context_len=128, num_pages=4, num_slots=2, queue_depth=1, queue_wait_s=30)
    scheduler = scheduler_of(config)
    older, younger = sequence_of(30, 90), sequence_of(30, 90)
    for sequence in (older, younger):
        scheduler.add(sequence)
    while younger.state is not State.WAITING:
        run_step(scheduler)
    late = sequence_of(1, 1, queued_at_s=50.0)
    scheduler.add(late)
    assert scheduler.num_queued == 2
    with pytest.raises(QueueFull):
        scheduler.add(sequence_of(1, 1))
    assert scheduler.expired(70.0) == []
    assert scheduler.expired(81.0) == [late]


def test_a_prompt_is_cut_into_chunks_and_only_the_last_row_wants_logits():
    scheduler = scheduler_of(EngineConfig(context_len=256, num_pages=10, chunk_len=16))
    sequence = sequence_of(35, 2)
    scheduler.add(sequence)
    steps = [run_step(scheduler)[0] for _ in range(4)]
    assert [(p.start, p.end) for p in steps] == [(0, 16), (16, 32), (32, 35), (0, 0)]
    assert [len(p.wanting_logits) for p in steps] == [0, 0, 1, 1]
    assert scheduler.plan() is None


def test_decoding_goes_on_beside_a_long_prompt():
    """A joining prompt costs each decoder nothing but one chunk's time: every step has its row."""
    scheduler = scheduler_of(EngineConfig(context_len=512, num_pages=40, chunk_len=16))
    decoder, prompt = sequence_of(1, 50), sequence_of(160, 5)
    scheduler.add(decoder)
    run_step(scheduler)
    scheduler.add(prompt)
    for step in range(10):
        plan, _ = run_step(scheduler)
        assert plan.decodes == (decoder,)
        assert (plan.prompt, plan.end) == (prompt, 16 * (step + 1))


def test_prompts_are_computed_one_at_a_time_in_order_of_arrival():
    scheduler = scheduler_of(EngineConfig(context_len=512, num_pages=64, chunk_len=16))
    sequences = [sequence_of(40, 5) for _ in range(4)]
    for sequence in sequences:
        scheduler.add(sequence)
    order = [run_step(scheduler)[0].prompt for _ in range(12)]
    assert order == [s for s in sequences for _ in range(3)]


def test_a_large_request_at_the_head_of_the_queue_is_not_overtaken():
    """Small requests behind it would fit, but then it might wait for ever."""
    scheduler = scheduler_of(EngineConfig(context_len=512, num_pages=8, num_slots=4))
    running, large, small = sequence_of(1, 31), sequence_of(240, 10), sequence_of(1, 31)
    for sequence in (running, large, small):
        scheduler.add(sequence)
    assert (large.state, small.state) == (State.WAITING, State.WAITING)
    scheduler.remove(running)
    assert (large.state, small.state) == (State.PREFILL, State.WAITING)
    scheduler.remove(large)
    assert small.state is State.PREFILL


def test_the_queue_has_a_depth():
    scheduler = scheduler_of(
        EngineConfig(context_len=256, num_pages=64, num_slots=2, queue_depth=3)
    )
    for _ in range(5):
        scheduler.add(sequence_of(1, 1))
    with pytest.raises(QueueFull) as refused:
        scheduler.add(sequence_of(1, 1))
    assert refused.value.queue_depth == 3
    assert (scheduler.num_slots_used, scheduler.num_queued) == (2, 3)


def test_without_a_queue_a_second_request_is_refused():
    scheduler = scheduler_of(
        EngineConfig(context_len=256, num_pages=64, num_slots=1, queue_depth=0)
    )
    scheduler.add(sequence_of(1, 1))
    with pytest.raises(QueueFull):
        scheduler.add(sequence_of(1, 1))


def test_those_that_waited_too_long_are_named_oldest_first():
    config = EngineConfig(context_len=256, num_pages=64, num_slots=1, queue_wait_s=30)
    scheduler = scheduler_of(config)
    sequences = [sequence_of(1, 1, queued_at_s=float(t)) for t in (0, 1, 2, 20)]
    for sequence in sequences:
        scheduler.add(sequence)
    assert scheduler.expired(30.5) == []
    assert scheduler.expired(32.0) == sequences[1:3]


def test_a_finished_sequence_cannot_be_removed_again():
    scheduler = scheduler_of(EngineConfig(context_len=256, num_pages=64))
    sequence = sequence_of(1, 1)
    scheduler.add(sequence)
    scheduler.remove(sequence)
    with pytest.raises(BrokenInvariant):
        scheduler.remove(sequence)


@settings(max_examples=60, deadline=None)
@given(
    num_slots=st.integers(1, 4),
    num_pages=st.integers(4, 12),
    chunk_len=st.integers(1, 40),
    actions=st.lists(
        st.one_of(
            st.tuples(
                st.just("add"),
                st.integers(1, 60),
                st.integers(1, 60),
                st.sampled_from([1, 2, None]),
            ),
            st.tuples(st.just("abort"), st.integers(0, 20), st.just(0), st.none()),
            st.tuples(st.just("step"), st.just(0), st.just(0), st.none()),
        ),
        max_size=50,
    ),
)
def test_books_balance_after_any_actions_and_everyone_gets_done(
    num_slots, num_pages, chunk_len, actions
):
    """Slots and pages are held exactly by those seated, and what is accepted finishes in the end."""
    config = EngineConfig(
        context_len=128, num_pages=num_pages, num_slots=num_slots, chunk_len=chunk_len
    )
    scheduler, accepted = scheduler_of(config), []

    def check():
        seated = [s for s in accepted if s.state in (State.PREFILL, State.DECODE)]
        assert len({s.slot for s in seated}) == len(seated) == scheduler.num_slots_used
        held = [page for s in seated for page in s.pages]
        assert len(set(held)) == scheduler.pages.num_used
        assert all(len(set(s.pages)) == len(s.pages) for s in seated)
        assert all(len(s.pages) * 32 >= s.num_computed for s in seated)
        assert scheduler.num_queued == sum(s.state is State.WAITING for s in accepted)
        assert scheduler.num_queued == 0 or seated, "someone waits for nobody"
        ages = [accepted.index(s) for s in scheduler.live()]
        assert ages == sorted(ages), "a younger one sits before an older one, or waits before it"

    for kind, first, second, token in actions:
        if kind == "add" and first + second <= num_pages * 32:
            sequence = sequence_of(first, second, token=token)
            accepted.append(sequence)
            scheduler.add(sequence)
        elif kind == "abort" and first < len(accepted):
            if accepted[first].state is not State.FINISHED:
                scheduler.remove(accepted[first])
        elif kind == "step" and not scheduler.is_idle:
            oldest = scheduler.live()[0]
            progress = oldest.num_computed
            plan, _ = run_step(scheduler)
            assert oldest.num_computed > progress or oldest.state is State.FINISHED
            assert len(plan.decodes) <= num_slots
            decoding = [s for s in scheduler.live() if s.state is State.DECODE]
            assert {*decoding} <= {*plan.decodes, plan.prompt}, "a decoder had no row"
            assert all(s.num_computed <= 32 * len(s.pages) for s in decoding)
            assert plan.end - plan.start <= chunk_len
        check()
    for _ in range(20_000):
        if scheduler.is_idle:
            break
        run_step(scheduler)
    assert all(s.state is State.FINISHED for s in accepted)
    assert scheduler.pages.num_used == 0
