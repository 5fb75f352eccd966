"""A die for every test that calls kernels."""

from __future__ import annotations

import pytest

from tests.kernels.cuda.bench import Bench


@pytest.fixture
def bench(dies):
    """One die's kernels, in every pass; skipped where there is no die."""
    from accel.cuda.die import Die

    dies(1)
    die = Die(0)
    with die.current():
        yield Bench(die)
    die.close()
