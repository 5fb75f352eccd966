"""How many threads take part in a step, and what becomes of them afterwards."""

from __future__ import annotations

import gc
import itertools
import threading
import time

import numpy as np
import pytest

from accel.cpu.backend import CpuBackend
from accel.cpu.threads import FIRST_PAUSE_S, LONGEST_PAUSE_S, STALL_S, Company
from tests.accel.cpu.models import Attention, attention_program, limits, run_prompt, silent
from tests.fakes.clock import ManualClock

LIMITS = limits(64, num_threads=3, num_slots=1)
TOKENS = np.arange(20)


def helpers():
    return [t for t in threading.enumerate() if t.name.startswith("cpu-compute")]


@pytest.fixture
def executor():
    made = CpuBackend().compile(attention_program(Attention()), LIMITS, silent)
    yield made
    made.close()


def test_close_joins_the_threads(executor):
    """Helpers run from compile to close; closing again does nothing; a step then is refused."""
    assert len(helpers()) == 2
    run_prompt(executor, TOKENS, LIMITS, 7)
    executor.close()
    assert helpers() == []
    executor.close()
    with pytest.raises(AssertionError, match="closed"):
        run_prompt(executor, TOKENS, LIMITS, 7)


def test_a_forgotten_executor_leaks_no_threads():
    """Garbage collection stops the helpers of an executor that nobody closed."""
    made = CpuBackend().compile(attention_program(Attention()), LIMITS, silent)
    run_prompt(made, TOKENS, LIMITS, 7)
    del made
    gc.collect()
    assert helpers() == []


def test_idle_helpers_cost_nothing(executor):
    """Between steps the process uses next to no CPU time."""
    run_prompt(executor, TOKENS, LIMITS, 7)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.02


def test_steps_after_a_pause_wake_the_helpers(executor):
    """Helpers that went to sleep take part again, with the same results."""
    first = run_prompt(executor, TOKENS, LIMITS, 20)
    time.sleep(0.05)
    np.testing.assert_array_equal(run_prompt(executor, TOKENS, LIMITS, 20), first)


class TestCompany:
    @pytest.fixture
    def clock(self):
        return ManualClock()

    @pytest.fixture
    def company(self, clock):
        clock.advance(100.0)
        return Company(4, clock)

    def step(self, company, clock, wait_s=0.0, step_s=0.01, alone_s=0.001):
        """One step of a machine on which going alone takes alone_s; how many threads it had."""
        num_threads = company.num_threads()
        took_s = alone_s if num_threads == 1 else step_s
        clock.advance(took_s)
        longest_s = 0.0 if num_threads == 1 else wait_s
        company.note_step(took_s, longest_s, longest_s)
        return num_threads

    def stall(self, company, clock, after_s):
        clock.advance(after_s)
        company.num_threads()
        company.note_step(0.01, 2 * STALL_S, 2 * STALL_S)

    def test_all_threads_while_nobody_stalls(self, company, clock):
        """Short waits change nothing."""
        for _ in range(10):
            assert self.step(company, clock, STALL_S / 2) == 4

    def test_one_stall_is_forgiven(self, company, clock):
        """Stalls that are far apart never send thread 0 on alone."""
        for _ in range(5):
            self.stall(company, clock, after_s=1.0)
            assert company.num_threads() == 4

    @pytest.mark.parametrize(("step_s", "waited_s", "then"), [(0.019, 0.01, 1), (0.019, 0.009, 4)])
    def test_many_short_waits(self, company, clock, step_s, waited_s, then):
        """Waiting for longer than working, if never long at once, is a stall: two of them, and alone."""
        for _ in range(2):
            assert company.num_threads() == 4
            clock.advance(step_s)
            company.note_step(step_s, STALL_S / 5, waited_s)
        assert company.num_threads() == then

    def test_short_steps_may_be_mostly_waits(self, company, clock):
        """Where all of them together are less than a stall, meetings are what takes time."""
        for _ in range(10):
            assert company.num_threads() == 4
            clock.advance(0.0005)
            company.note_step(0.0005, 0.0001, 0.0004)

    def test_alone_after_a_second_stall_soon(self, company, clock):
        """Two stalls in a row: alone for the first pause, then all again."""
        self.stall(company, clock, 1.0)
        self.stall(company, clock, 0.005)
        assert company.num_threads() == 1
        clock.advance(FIRST_PAUSE_S + 0.001)
        assert company.num_threads() == 4

    def test_pauses_grow_while_stalls_go_on(self, company, clock):
        """Each stall right after a pause doubles the next pause, up to the longest."""
        self.stall(company, clock, 1.0)
        self.stall(company, clock, 0.005)
        pauses = []
        for _ in range(8):
            start = clock.now_s
            while self.step(company, clock) == 1:
                pass
            pauses.append(clock.now_s - start)
            self.stall(company, clock, 0.001)
        assert all(b >= a for a, b in itertools.pairwise(pauses))
        assert pauses[-1] == pytest.approx(LONGEST_PAUSE_S, abs=0.02)

    def share_alone(self, company, clock, alone_s):
        """Of the time of 2,000 steps with a stall in each that has everybody."""
        alone = whole = 0.0
        for _ in range(2000):
            start = clock.now_s
            num_threads = self.step(company, clock, 2 * STALL_S, alone_s=alone_s)
            whole += clock.now_s - start
            alone += clock.now_s - start if num_threads == 1 else 0
        return alone / whole

    def test_stalls_are_borne_where_going_alone_is_no_faster(self, company, clock):
        """It is tried now and then, at a small part of the time."""
        assert 0 < self.share_alone(company, clock, alone_s=0.018) < 0.05

    def test_stalls_are_borne_no_longer_than_that_pays(self, company, clock):
        """Alone at 5 ms was no faster than together at 4; once steps take 19, it is, and soon known."""
        for step_s in (0.004, 0.019):
            threads = [
                self.step(company, clock, 2 * STALL_S, step_s=step_s, alone_s=0.005)
                for _ in range(300)
            ]
        assert 4 in threads[:3]
        assert threads[20:].count(1) > 250

    def test_mostly_alone_where_that_is_faster(self, company, clock):
        assert self.share_alone(company, clock, alone_s=0.007) > 0.9

    def test_a_single_thread_is_always_all(self, clock):
        """With one thread there is nothing to leave out."""
        company = Company(1, clock)
        self.stall(company, clock, 1.0)
        self.stall(company, clock, 0.001)
        assert company.num_threads() == 1
