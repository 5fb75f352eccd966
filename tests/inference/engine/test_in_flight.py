"""Two steps in flight: who is in them, what they keep, and that nobody can tell from the tokens."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from inference.engine.config import EngineConfig
from inference.engine.errors import ReplicaClosed
from inference.engine.params import FinishReason
from inference.engine.scheduler import BEHIND_UNREAD, Scheduler
from inference.engine.sequence import State
from inference.engine.stats import WorkerCounts
from tests.fakes.executor import Gate, greedy_continuation
from tests.inference.engine.driving import VOCAB_SIZE, read_all, request_of
from tests.inference.engine.test_scheduler import sequence_of

ROOMY = EngineConfig(context_len=256, num_pages=64, num_slots=8, chunk_len=16)


class Pipeline:
    """A scheduler whose steps are started and finished apart; every token sampled is a 0."""

    def __init__(self, config):
        self.counts = WorkerCounts()
        self.scheduler = Scheduler(config, self.counts, num_in_flight=2)
        self.in_flight = deque()  # (plan, slot and pages of each of its sequences)

    def start(self):
        """Plan a step; False when there is none. What must hold of it is asserted."""
        busy = {s for plan, _ in self.in_flight for s in plan.sequences}
        num_decoding = sum(s.state is State.DECODE for s in self.scheduler.live())
        plan = self.scheduler.plan(busy)
        self.check_kept()
        if plan is None:
            return False
        assert not busy & {*plan.sequences}, "a sequence in two steps"
        assert len(plan.decodes) <= -(-num_decoding // 2), "the other step has too few"
        for sequence in plan.sequences:
            last_row = plan.end - 1 if sequence is plan.prompt else sequence.num_ids - 1
            assert len(sequence.pages) > last_row // 32
        held = {s: (s.slot, list(s.pages)) for s in plan.sequences}
        self.in_flight.append((plan, held))
        return True

    def finish(self):
        self.check_kept()
        plan, _ = self.in_flight.popleft()
        if plan.prompt is not None and plan.prompt.state is not State.FINISHED:
            self.scheduler.prefilled(plan.prompt, plan.end)
        for sequence in plan.wanting_logits:
            if sequence.state is not State.FINISHED and sequence.append(0, 0.0) is not None:
                self.scheduler.remove(sequence)

    def check_kept(self):
        """Those in flight have what they were started with, and nobody else writes there."""
        written = set()
        for plan, held in self.in_flight:
            for sequence, (slot, pages) in held.items():
                if sequence.state is State.FINISHED:
                    continue
                assert (sequence.slot, sequence.pages) == (slot, pages)
                first = plan.start if sequence is plan.prompt else sequence.num_ids - 1
                writes = {*pages[first // 32 :]}
                assert not writes & written
                written |= writes
        for sequence in self.scheduler.live():
            assert sequence.num_published * 32 <= sequence.num_computed, "published too early"

    def drain(self):
        """Until nobody is left."""
        for _ in range(20_000):
            if self.scheduler.is_idle and not self.in_flight:
                return
            oldest = self.scheduler.live()[:1]
            computed = [s.num_computed for s in oldest]
            for _ in range(3):  # a step later at most, for whom the youngest must give way first
                while len(self.in_flight) < 2 and self.start():
                    pass
                if self.in_flight:
                    self.finish()
            left = [s.num_computed for s in oldest if s.state is not State.FINISHED]
            assert left != computed or not computed
        raise AssertionError("somebody never finishes")


def decoding(config, count, max_tokens=50):
    """A pipeline with so many sequences past their prompts, none in flight."""
    pipeline = Pipeline(config)
    sequences = [sequence_of(2, max_tokens) for _ in range(count)]
    for sequence in sequences:
        pipeline.scheduler.add(sequence)
        pipeline.start()
        while pipeline.in_flight:
            pipeline.finish()
    return pipeline, sequences


@settings(max_examples=150, deadline=None)
@given(
    num_slots=st.integers(1, 5),
    num_pages=st.integers(4, 12),
    chunk_len=st.integers(1, 40),
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 60), st.integers(1, 60), st.integers(0, 3)),
            st.tuples(st.just("abort"), st.integers(0, 20)),
            st.tuples(st.just("behind"), st.integers(0, 20), st.sampled_from([0, 64, 1024])),
            st.tuples(st.just("start")),
            st.tuples(st.just("finish")),
        ),
        max_size=80,
    ),
)
def test_books_balance_whatever_happens_while_steps_are_in_flight(
    num_slots, num_pages, chunk_len, actions
):
    config = EngineConfig(
        context_len=128, num_pages=num_pages, num_slots=num_slots, chunk_len=chunk_len
    )
    pipeline, accepted = Pipeline(config), []
    scheduler = pipeline.scheduler
    for kind, *arguments in actions:
        if kind == "add" and sum(arguments[:2]) <= num_pages * 32:
            accepted.append(sequence_of(*arguments[:2], token=arguments[2] or None))
            scheduler.add(accepted[-1])
        elif kind == "start" and len(pipeline.in_flight) < 2:
            pipeline.start()
        elif kind == "finish" and pipeline.in_flight:
            pipeline.finish()
        elif kind in ("abort", "behind") and arguments[0] < len(accepted):
            sequence = accepted[arguments[0]]
            if sequence.state is State.FINISHED:
                continue
            if kind == "abort":
                scheduler.remove(sequence)
            else:
                scheduler.unread(sequence, arguments[1])
        pipeline.check_kept()
        seated = [s for s in accepted if s.state in (State.PREFILL, State.DECODE)]
        assert len({s.slot for s in seated}) == len(seated) == scheduler.num_slots_used
        assert len({page for s in seated for page in s.pages}) == scheduler.pages.num_used
    for sequence in accepted:
        scheduler.unread(sequence, 0)
    pipeline.drain()
    event(f"preempted {min(pipeline.counts.num_preempted, 2)}")
    event(f"parked {min(pipeline.counts.num_parked, 2)}")
    assert all(s.state is State.FINISHED for s in accepted)
    assert scheduler.pages.num_used == 0


def test_two_steps_share_those_who_decode():
    pipeline, sequences = decoding(ROOMY, 5)
    assert pipeline.start()
    assert pipeline.start()
    first, second = (plan.decodes for plan, _ in pipeline.in_flight)
    assert (len(first), len(second)) == (3, 2)
    assert {*first, *second} == {*sequences}


def test_groups_that_became_unequal_are_evened_out():
    pipeline, _ = decoding(ROOMY, 6)
    pipeline.start()
    pipeline.start()
    for sequence in pipeline.in_flight[1][0].decodes[1:]:
        pipeline.scheduler.remove(sequence)
    sizes = []
    for _ in range(6):
        pipeline.finish()
        pipeline.start()
        sizes.append(len(pipeline.in_flight[-1][0].decodes))
    assert sizes[-2:] == [2, 2]


def test_one_alone_has_one_step_at_a_time():
    pipeline, _ = decoding(ROOMY, 1)
    assert pipeline.start()
    assert not pipeline.start()


def test_a_prompt_has_one_chunk_at_a_time_and_others_decode_beside_it():
    pipeline, decoders = decoding(ROOMY, 2)
    prompt = sequence_of(100, 4)
    pipeline.scheduler.add(prompt)
    pipeline.start()
    pipeline.start()
    (first, _), (second, _) = pipeline.in_flight
    assert (first.decodes, first.prompt, first.end) == ((decoders[0],), prompt, 16)
    assert (second.decodes, second.prompt) == ((decoders[1],), None)
    pipeline.finish()
    pipeline.start()
    assert pipeline.in_flight[-1][0].sequences == (decoders[0], prompt)


def test_who_needs_the_pages_of_one_in_flight_waits_for_its_step():
    """The youngest gives way, not another for it; and nobody loses pages that a step works on."""
    config = EngineConfig(context_len=96, num_pages=6, num_slots=3, prefix_cache=False)
    pipeline, (oldest, middle, youngest) = decoding(config, 3, 90)
    while oldest.num_ids < 64:
        pipeline.start()
        pipeline.start()
        pipeline.finish()
        pipeline.finish()
    pipeline.start()
    pipeline.start()
    pipeline.finish()
    assert oldest.needs_page
    assert [plan.decodes for plan, _ in pipeline.in_flight] == [(youngest,)]
    pipeline.start()
    assert [plan.decodes for plan, _ in pipeline.in_flight] == [(youngest,), (middle,)]
    pipeline.finish()
    pipeline.start()
    assert [plan.decodes for plan, _ in pipeline.in_flight] == [(middle,), (oldest,)]
    assert youngest.state is State.WAITING


def test_one_that_is_behind_is_parked_when_its_step_is_over():
    config = EngineConfig(context_len=256, num_pages=64, num_slots=2, chunk_len=16)
    pipeline, (behind, other) = decoding(config, 2)
    pipeline.start()
    assert pipeline.in_flight[0][0].decodes == (behind,)
    pipeline.scheduler.unread(behind, BEHIND_UNREAD)
    late = sequence_of(2, 5)
    pipeline.scheduler.add(late)
    pipeline.start()
    assert pipeline.in_flight[1][0].sequences == (other,)
    assert (behind.state, late.state) == (State.DECODE, State.WAITING)
    pipeline.finish()
    pipeline.start()
    assert pipeline.in_flight[1][0].sequences == (late,)
    assert behind.is_parked


# The worker.


def test_steps_overlap_where_the_executor_takes_two(make_worker):
    for num_in_flight, num_streams, most in ((1, 3, 1), (2, 1, 1), (2, 3, 2)):
        worker, executor = make_worker(num_in_flight=num_in_flight)
        streams = [worker.submit(request_of([i], 12)) for i in range(num_streams)]
        worker.start()
        for i, stream in enumerate(streams):
            assert read_all(stream) == greedy_continuation([i], 12, VOCAB_SIZE)
        assert executor.most_in_flight == most
        assert worker.stats().counts.num_steps == executor.num_steps


@pytest.mark.parametrize("where", ["before_step", "before_finish"])
def test_a_step_that_fails_beside_another_leaves_nobody_waiting(make_worker, where):
    def fail(step):
        if step == 11:
            raise RuntimeError("die 1 is gone")

    reasons = []
    config = EngineConfig(context_len=256, num_pages=64, num_slots=3, chunk_len=16)
    worker, executor = make_worker(
        config, num_in_flight=2, worker_args={"on_failure": reasons.append}, **{where: fail}
    )
    streams = [worker.submit(request_of([i], 200)) for i in range(5)]
    worker.start()
    for stream in streams[:3]:
        read_all(stream)
    for stream in streams[3:]:
        with pytest.raises(ReplicaClosed):
            stream.wait(5)
    assert all(stream.finish.reason is FinishReason.ERROR for stream in streams)
    worker.close("It failed.")
    assert reasons == ["die 1 is gone"]
    assert executor.most_in_flight == 2
    assert worker.stats().num_pages_used == 0


def held_in_flight(make_worker, num_streams=2):
    """A worker with two steps in flight, waiting for the first, and the gate that holds it there."""
    gate = Gate()
    worker, executor = make_worker(num_in_flight=2, before_finish=gate)
    streams = [worker.submit(request_of([i], 40)) for i in range(num_streams)]
    worker.start()
    gate.wait_for_step()
    while executor.num_in_flight_now < 2:
        gate.allow()
        gate.wait_for_step()
    return worker, gate, streams


def test_closing_waits_for_both_steps(make_worker):
    worker, gate, streams = held_in_flight(make_worker)
    closer = threading.Thread(target=worker.close, args=("The model was unloaded.",))
    closer.start()
    for stream in streams:
        read_all(stream)
        assert stream.finish.message == "The model was unloaded."
    gate.allow()
    gate.wait_for_step()
    assert closer.is_alive()
    gate.open()
    closer.join(20)
    assert not closer.is_alive()


def test_abort_in_flight_drops_the_token_on_its_way_and_frees_the_slot(make_worker):
    worker, gate, streams = held_in_flight(make_worker)
    counts = worker.stats().counts
    num_output = [stream.usage.num_output_tokens for stream in streams]
    for stream in streams:
        stream.abort()
    assert worker.stats().num_slots_used == 0
    other = worker.submit(request_of([9], 5))
    gate.open()
    assert read_all(other) == greedy_continuation([9], 5, VOCAB_SIZE)
    after = worker.stats().counts
    assert after.num_output_tokens == counts.num_output_tokens + 2 + 5
    assert after.num_surplus_tokens == sum(num_output) + 2
