"""Two steps in flight over two dies: the bits of one at a time, and work for both dies at once."""

from __future__ import annotations

import numpy as np
import pytest

from accel.backend import run_step
from tests.accel.cpu.models import (
    VOCAB_SIZE,
    Attention,
    attention_program,
    batch,
    limits,
    shuffled_pages,
)
from tests.accel.cuda.models import compile_program
from tests.emulator.emulated_driver import LAUNCH

LIMITS = limits(160, max_rows=104, max_logit_rows=4, num_slots=4)
PROGRAM = attention_program(Attention(), num_layers=4)


def steps_of_two_groups():
    """Slots 0 and 1 by turns with slots 2 and 3, some steps with a chunk, some too wide for one part."""
    rng, at = np.random.default_rng(0), np.zeros(4, int)
    steps = []
    for number, widths in enumerate([(3, 90), (90, 1), (1, 1), (1, 20), (1, 1), (1, 1), (1, 30)]):
        slots = [slot for slot in range(4) if slot // 2 == number % 2]
        rows = [
            (slot, at[slot] + i) for slot, n in zip(slots, widths, strict=True) for i in range(n)
        ]
        at[slots] += widths
        wanted = [] if number == 3 else [widths[0] - 1, sum(widths) - 1]
        ids = rng.integers(0, VOCAB_SIZE, len(rows))
        steps.append((ids, [p for _, p in rows], [s for s, _ in rows], wanted))
    return steps


def batches():
    return [batch(*step, shuffled_pages(LIMITS)) for step in steps_of_two_groups()]


def in_flight_two_by_two(executor, steps, first_die_is_ahead):
    """Each step is started before the one before it is finished, and what it was given is overwritten.

    The first die may do what it can before the second one does anything.
    """
    first_die = executor._stages[0].die
    results = []
    for number, step in enumerate(steps):
        executor.start(step)
        for array in (step.tokens, step.positions, step.slots, step.logit_rows, step.page_table):
            array.fill(0)
        if first_die_is_ahead:
            with first_die.current():
                first_die.synchronize()
        if number:
            results.append(executor.finish().copy())
    return [*results, executor.finish().copy()]


@pytest.mark.parametrize("first_die_is_ahead", [False, True])
@pytest.mark.parametrize("peers", [True, False], ids=["direct", "through the host"])
def test_the_same_bits_as_one_at_a_time(dies, peers, first_die_is_ahead):
    dies(2, peers=peers)
    executor = compile_program(PROGRAM, LIMITS, 2)
    assert executor.num_in_flight == 2
    expected = [run_step(executor, step).copy() for step in batches()]
    executor.close()
    executor = compile_program(PROGRAM, LIMITS, 2)
    for _ in range(3):  # the third time shapes are recorded, then replayed
        got = in_flight_two_by_two(executor, batches(), first_die_is_ahead)
        for ours, theirs in zip(got, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    executor.close()


def test_both_dies_have_work_and_only_the_step_wanted_is_waited_for(emulated):
    """Lazy streams run what is waited for and nothing else, so what is left shows what was queued."""
    emulated.reset(num_dies=2, lazy=True, poison=True)
    executor = compile_program(PROGRAM, LIMITS, 2)
    first, second = batches()[:2]
    run_step(executor, first)
    start = emulated.count(LAUNCH)
    run_step(executor, first)
    num_launches = emulated.count(LAUNCH) - start
    executor.start(first)
    executor.start(second)
    assert emulated.count(LAUNCH) == start + num_launches
    executor.finish()
    assert emulated.count(LAUNCH) == start + 2 * num_launches, "the second step was waited for"
    for stage in executor._stages:
        with stage.die.current():
            assert not stage.die.stream.is_done(), f"die {stage.die.ordinal} idles"
    executor.finish()
    executor.close()


def test_one_die_takes_one_step(emulated):
    executor = compile_program(PROGRAM, LIMITS, 1)
    assert executor.num_in_flight == 1
    executor.close()
