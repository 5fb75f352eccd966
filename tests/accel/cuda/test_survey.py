"""Surveys on a die: the sampler that asks there chooses what the sampler of the host chooses."""

from __future__ import annotations

import numpy as np
import pytest

from accel.backend import Limits
from accel.cuda.modules import Modules
from accel.cuda.survey import SurveyMemory, Surveyor, findings_of
from accel.survey import Survey
from inference.engine.params import SamplingParams
from inference.engine.sampler import Sampler
from inference.engine.survey_sampler import SurveySampler
from tests.inference.engine.test_sampler import logits_of, sequence_of
from tests.inference.engine.test_survey_sampler import CASES, PEAKED, same, seeded

ROWS = 3
SIZES = [37, 49_152, 262_144]


class DieLogits:
    """Rows of logits on a die, surveyed there. Shapes: rows (ROWS, V) f32."""

    def __init__(self, die, rows):
        self.rows, self._die = rows, die
        width = rows.shape[1]
        stride = -(-width // 4) * 4
        memory = SurveyMemory(Limits(ROWS, ROWS, 1, 1, 1), width, stride, 1)
        base = die.allocate(memory.area.num_bytes, "a test").address
        self._surveyor = Surveyor(die, Modules(die), memory, lambda at: base + at.offset)
        self._lane = self._surveyor.new_lane()
        self._logits = base + memory.logits[0].offset
        self._padded = np.full((ROWS, stride), 1e9, np.float32)
        self._padded[:, :width] = rows
        die.copy_in(self._logits, self._padded)
        self.num_logits = 0

    def answer(self, surveys):
        self._surveyor.start(self._lane, surveys, self._logits)
        self._die.synchronize()
        return findings_of(self._lane)

    def logits(self, row, first, end):
        self.num_logits += end - first
        return self.rows[row, first:end]

    def stored(self):
        stored = np.empty_like(self._padded)
        self._die.copy_out(stored, self._logits)
        self._die.synchronize()
        return stored[:, : self.rows.shape[1]]


@pytest.fixture
def die(dies):
    from accel.cuda.die import Die

    dies(1)
    die = Die(0)
    with die.current():
        yield die
    die.close()


def both(die, logits, params, output=(3, 3, 7)):
    sampler = Sampler(logits.shape[1], ROWS)
    asking, surveyed = SurveySampler(logits.shape[1], sampler), DieLogits(die, logits)
    plain, surveying = ([sequence_of(p, (1, 2, 5), output) for p in params] for _ in range(2))
    asked = asking.ask(surveying)
    got = asking.choose(asked, surveyed.answer(asked.surveys), surveyed)
    return sampler.choose(logits, plain), got, surveyed


@pytest.mark.parametrize("vocab_size", SIZES)
def test_tokens_are_the_hosts(die, vocab_size):
    """Every kind of request, three at a time, with and without logprobs; nothing is fetched."""
    logits = logits_of(vocab_size, 1, PEAKED, num_rows=ROWS)
    cases = [*CASES.values(), *CASES.values()]
    for at in range(0, len(CASES), ROWS):
        for num_logprobs in (None, 5):
            params = [seeded(cases[at + i], at + i, num_logprobs) for i in range(ROWS)]
            expected, got, surveyed = both(die, logits, params)
            assert all(map(same, expected, got)), (params, expected, got)
            # At most the logit of a penalised token, to report it.
            assert surveyed.num_logits <= (0 if num_logprobs is None else ROWS)


def test_adjusted_logits_are_put_back(die):
    """Whoever fetches them later sees what the model said."""
    logits = logits_of(1000, 2, num_rows=ROWS)
    _, _, surveyed = both(die, logits, [seeded(CASES["penalties"], 1, 3)] * ROWS)
    np.testing.assert_array_equal(surveyed.stored(), logits)


def test_flat_rows_are_fetched(die):
    """More equal logits than a die puts in order, and a nucleus wider than what is kept."""
    logits = logits_of(5000, 2, 0.2, num_rows=ROWS)
    logits[0] = 0
    params = [seeded(SamplingParams(top_p=0.9), 1) for _ in range(ROWS)]
    expected, got, surveyed = both(die, logits, params)
    assert got == expected
    assert surveyed.num_logits == logits.size


@pytest.mark.parametrize("vocab_size", SIZES)
def test_draws_at_the_borders(die, vocab_size):
    """A number just before and just after the border between two tokens draws the one and the other."""
    logits = np.full((ROWS, vocab_size), -np.inf, np.float32)
    chosen = np.random.default_rng(0).permutation(vocab_size)[:32]
    logits[:, chosen] = 1.0
    surveyed, chosen = DieLogits(die, logits), sorted(chosen.tolist())
    for k in (0, 1, 13, 31):
        inside, border = Survey(0, 1.0, (k + 0.5) / 32), Survey(2, 1.0, k / 32)
        before = Survey(1, 1.0, max(0.0, k / 32 - 1e-12))
        found = surveyed.answer([inside, before, border])
        expected = [chosen[k], chosen[max(0, k - 1)], chosen[k]]
        assert [finding.drawn[0] for finding in found] == expected
