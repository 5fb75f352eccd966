from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from inference.engine.selection import heaviest, heaviest_mass, largest_bound

values_with_ties = hnp.arrays(
    np.float32,
    st.integers(1, 300),
    elements=st.sampled_from([0.0, 0.001, 0.1, 0.25, 0.2500001, 0.5, 1.0]),
)


def by_value(values):
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


@given(values_with_ties, st.integers(1, 310))
def test_heaviest_are_the_largest_with_ties_to_the_lower_index(values, count):
    chosen = np.flatnonzero(heaviest(values, count)).tolist()
    assert chosen == sorted(by_value(values)[:count])


@given(values_with_ties, st.integers(1, 310))
def test_enough_values_reach_the_bound(values, count):
    reached = int((values >= largest_bound(values, count)).sum())
    assert reached >= min(count, len(values))


def test_the_bound_leaves_few_of_many():
    values = np.random.default_rng(1).normal(size=49_152).astype(np.float32)
    assert 40 <= int((values >= largest_bound(values, 40)).sum()) < 80


@given(values_with_ties, st.floats(0, 1.2))
def test_heaviest_mass_stops_at_the_first_sum_that_reaches_the_target(values, share):
    keys = values + np.float32(0.0005)
    target = share * float(keys.astype(np.float64).sum())
    expected, total = [], 0.0
    for index in by_value(keys):
        expected.append(index)
        total += float(keys[index])
        if total >= target - 1e-9:
            break
    chosen = np.flatnonzero(heaviest_mass(keys, keys, target - 1e-9)).tolist()
    assert chosen == sorted(expected)


@pytest.mark.parametrize("size", [1, 1000, 50_000])
def test_heaviest_mass_agrees_with_a_full_sort(size):
    rng = np.random.default_rng(size)
    keys = np.exp(rng.normal(size=size) * 3).astype(np.float32)
    masses = rng.random(size).astype(np.float32)
    target = 0.7 * float(masses.sum(dtype=np.float64))
    order = np.lexsort((np.arange(size), -keys))
    count = int(np.cumsum(masses[order], dtype=np.float64).searchsorted(target)) + 1
    assert np.flatnonzero(heaviest_mass(keys, masses, target)).tolist() == sorted(order[:count])
