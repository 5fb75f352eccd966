"""Steps replayed as graphs: the same bits as launched one by one, and one call instead of hundreds."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cuda.backend import CudaBackend
from accel.cuda.graphs import is_available
from tests.accel.cpu.models import Attention, attention_program, limits, run_prompt
from tests.accel.cuda.models import silent
from tests.emulator.emulated_driver import LAUNCH

LIMITS = limits(64, num_slots=2)
PROGRAM = attention_program(Attention(), num_layers=4)
TOKENS = np.arange(40)


@pytest.mark.parametrize("num_dies", [1, 2])
def test_the_same_bits(dies, num_dies):
    """Rows one by one come in shapes that soon are graphs."""
    dies(2)
    runs = []
    for use_graphs in (True, False):
        backend = CudaBackend(range(num_dies), use_graphs=use_graphs)
        executor = backend.compile(PROGRAM, LIMITS, silent)
        runs.append(run_prompt(executor, TOKENS, LIMITS, 1))
        executor.close()
    np.testing.assert_array_equal(*runs)


def test_shapes_that_come_again_are_recorded(emulated):
    """The first steps of a shape are launched, the others replayed; every launch of every step runs."""
    assert is_available()
    executor = CudaBackend((0,)).compile(PROGRAM, LIMITS, silent)
    (stage,) = executor._stages
    run_prompt(executor, TOKENS[:2], LIMITS, 1)
    (prepared,) = stage._prepared.values()
    assert prepared.graph is None
    before = emulated.count(LAUNCH)
    run_prompt(executor, TOKENS[2:8], LIMITS, 1, start=2)
    assert prepared.graph is not None
    assert emulated.count(LAUNCH) - before == 6 * len(prepared.launches)
    executor.close()


def test_forgotten_shapes_give_their_graphs_back(emulated):
    """What was forgotten is prepared anew when it is wanted."""
    executor = CudaBackend((0,)).compile(PROGRAM, LIMITS, silent)
    (stage,) = executor._stages
    run_prompt(executor, TOKENS, LIMITS, 1)
    with stage.die.current():
        stage._forget(())
    again = run_prompt(executor, TOKENS, LIMITS, 1)
    assert np.isfinite(again).all()
    executor.close()
