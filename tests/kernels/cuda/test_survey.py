"""The launches of a survey together against the reference: peaks, sums, draws and the heaviest, and bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from kernels.cuda import survey as layout
from kernels.cuda.catalogue import (
    ADJUST_LOGITS,
    DRAW,
    GROUP_PEAKS,
    HEAVIEST,
    RESTORE_LOGITS,
    ROW_PEAK,
    WEIGH_RUNS,
)
from kernels.reference import survey as reference
from tests.kernels.cuda.bench import frozen

KEEP = 512
WIDTHS = [1, 37, 255, 256, 2049, 49_152, 262_144]


@dataclass(frozen=True)
class Wish:
    row: int = 0
    scale: float = 1.0
    uniform: float = -1.0
    keep: int = 0


@dataclass(frozen=True, eq=False)
class Surveyed:
    findings: np.ndarray
    heaviest: list  # (ids, values) of each
    sums: np.ndarray


def surveyed(bench, logits, wishes):
    """logits (L, stride) frozen; rows end with a pad that must not be read."""
    n, width, stride = len(wishes), logits.shape[1] - 3, logits.shape[1]
    surveys, starts = np.zeros(n, layout.SURVEY), np.cumsum([0, *(wish.keep for wish in wishes)])
    for record, wish, start in zip(surveys, wishes, starts[:-1], strict=True):
        record["row"], record["scale"], record["uniform"] = wish.row, wish.scale, wish.uniform
        record["keep"], record["start"] = wish.keep, start
    surveys.flags.writeable = False
    groups = np.full((n, layout.GROUPS), 7, layout.PAIR)
    findings = np.full(n, 7, layout.FINDING)
    sums = np.full((n, layout.num_runs(width)), np.nan, np.float32)
    collected = np.full((n, layout.COLLECTED), 7, layout.PAIR)
    kept = np.full(max(int(starts[-1]), 1), 7, layout.PAIR)
    row = layout.row_grid(n)
    bench.call(GROUP_PEAKS, layout.group_grid(n), surveys, logits, groups, width, stride)
    bench.call(ROW_PEAK, row, surveys, groups, findings)
    where = (surveys, logits, findings, sums, collected, width, stride)
    bench.call(WEIGH_RUNS, layout.weigh_grid(width, n), *where)
    bench.call(HEAVIEST, row, surveys, findings, collected, kept)
    bench.call(DRAW, row, surveys, logits, findings, sums, width, stride)
    pairs = np.split(kept[: starts[-1]], starts[1:-1])
    return Surveyed(findings, [layout.unpack(p) for p in pairs], sums)


def padded(rows):
    """Rows that end with values larger than any of theirs."""
    return frozen(np.pad(np.atleast_2d(rows), ((0, 0), (0, 3)), constant_values=1e9), np.float32)


def logits_of(width, seed=0, num_rows=1, spread=3.0):
    return (spread * np.random.default_rng(seed).standard_normal((num_rows, width))).astype("f4")


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_of_one_row(bench, width):
    """More values than a group, a run or a thread block takes, and fewer."""
    logits, rng = logits_of(width, width), np.random.default_rng(1)
    uniforms = rng.random(3)
    got = surveyed(bench, padded(logits), [Wish(0, 1.25, u, KEEP) for u in uniforms])
    for finding, (ids, values), uniform in zip(got.findings, got.heaviest, uniforms, strict=True):
        expected = reference.survey(logits[0], 1.25, uniform, KEEP)
        assert (finding["peak"], finding["best"]) == (expected.peak, expected.best)
        assert finding["total"] == pytest.approx(expected.total, rel=1e-6)
        assert finding["drawn"] == expected.drawn
        np.testing.assert_array_equal(ids, expected.ids)
        np.testing.assert_array_equal(values, expected.values)


def test_few_are_collected(bench):
    """The bound leaves little more than what is kept, so that random rows never overflow."""
    got = surveyed(bench, padded(logits_of(262_144)), [Wish(keep=KEEP), Wish(keep=20)])
    assert (got.findings["num_collected"] < [800, 40]).all()


def test_sums_of_runs_are_numpys(bench):
    """Where all weights are 0 or 1, which exp has exactly, the sums are the host's, bit for bit."""
    logits = np.where(np.random.default_rng(2).random((1, 1000)) < 0.5, 0.0, -np.inf).astype("f4")
    got = surveyed(bench, padded(logits), [Wish()])
    np.testing.assert_array_equal(got.sums[0], reference.run_sums(np.exp(logits[0])))


@pytest.mark.parametrize("uniform", [0.0, 0.25, 1 - 2**-53])
def test_weightless_values_are_never_drawn(bench, uniform):
    """The first and the last values weigh nothing, and so do whole runs."""
    logits = np.full((1, 2000), -np.inf, np.float32)
    logits[0, [300, 301, 1200]] = 1.0, 1.0, 2.0
    got = surveyed(bench, padded(logits), [Wish(0, 1.0, uniform)])
    assert got.findings["drawn"][0] == reference.survey(logits[0], 1.0, uniform, 0).drawn


def test_draws_follow_the_weights(bench):
    """Chi-square of 4,000 draws over a vocabulary of 37: 80 is passed once in 30,000 runs."""
    logits, rng = logits_of(37, 3, spread=1.0), np.random.default_rng(5)
    got = surveyed(bench, padded(logits), [Wish(0, 0.8, u) for u in rng.random(4000)])
    weights = np.exp(0.8 * logits[0].astype(np.float64))
    expected = 4000 * weights / weights.sum()
    counts = np.bincount(got.findings["drawn"], minlength=37)
    assert ((counts - expected) ** 2 / expected).sum() < 80


def test_ties_go_to_the_lowest_id(bench):
    """Also between 0 and -0; and where all values are equal, so that too many reach the bound."""
    logits = np.zeros((2, 5000), np.float32)
    logits[0, ::2] = -0.0
    logits[1, [77, 4000, 78]] = 2.0
    got = surveyed(bench, padded(logits), [Wish(0, keep=3), Wish(1, keep=3)])
    assert got.findings["best"].tolist() == [0, 77]
    assert got.findings["num_collected"][0] == 5000  # what is kept means nothing
    assert got.heaviest[1][0].tolist() == [77, 78, 4000]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers(bench, bad):
    """The peak tells; nothing is drawn, and nobody hangs."""
    logits = logits_of(300)
    logits[0, [3, 200]] = bad
    if bad == -np.inf:
        logits[:] = bad
    got = surveyed(bench, padded(logits), [Wish(0, 1.0, 0.5, 5), Wish(0, 0.0)])
    assert not np.isfinite(got.findings["peak"]).any()


def test_neighbours(bench):
    """A survey's bits are the same alone, and a row's the same whichever it is."""
    logits = logits_of(3000, 1, num_rows=4)
    wishes = [Wish(0, 1.0, 0.3, 40), Wish(2, 0.0), Wish(3, 0.7, 0.9), Wish(2, 1.3, 0.2, 5)]
    together = surveyed(bench, padded(logits), wishes)
    for i, wish in enumerate(wishes):
        alone = surveyed(bench, padded(logits[wish.row]), [Wish(0, *list(vars(wish).values())[1:])])
        assert alone.findings[0] == together.findings[i]
        for a, b in zip(alone.heaviest[0], together.heaviest[i], strict=True):
            np.testing.assert_array_equal(a, b)


def test_adjustments(bench):
    """The reference's bits, and back to the old ones."""
    logits, rng = logits_of(1000, 4), np.random.default_rng(6)
    at = rng.permutation(1000)[:300].astype(np.int32)
    columns = [rng.uniform(0.5, 2.0, 300).astype(np.float32) for _ in range(3)]
    columns[2][:20] = -np.inf
    adjustments = np.zeros(300, layout.ADJUSTMENT)
    adjustments["at"] = at
    for name, column in zip(("repeat", "subtract", "bias"), columns, strict=True):
        adjustments[name] = column
    adjustments.flags.writeable = False
    got, saved, grid = logits.copy(), np.zeros(300, np.float32), layout.adjust_grid(300)
    bench.call(ADJUST_LOGITS, grid, adjustments, got, saved, 300)
    expected = logits[0].copy()
    reference.adjust_logits(expected, at, *columns)
    np.testing.assert_array_equal(got[0], expected)
    bench.call(RESTORE_LOGITS, grid, adjustments, got, saved, 300)
    np.testing.assert_array_equal(got, logits)
