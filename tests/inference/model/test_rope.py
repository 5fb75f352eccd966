"""Rotary angles under each scaling rule."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inference.model.errors import ModelError
from inference.model.keys import Keys
from inference.model.rope import RopeConfig
from kernels.specs.tensor import Vector


def _config(head_dim=8, context_len=1024, **keys):
    metadata = {f"llama.rope.{name.replace('__', '.')}": value for name, value in keys.items()}
    return RopeConfig.from_keys(Keys(metadata, "llama"), head_dim, context_len)


def test_unscaled():
    """Pair i turns by base^(-2 i / dims) a position; the default base is 10000."""
    table = _config().table()
    assert table.inv_freq.tolist() == pytest.approx([1, 0.1, 0.01, 0.001])
    assert table.magnitude == 1.0


def test_fewer_dimensions_than_the_head():
    """Partial rotation spreads the frequencies over the rotated dimensions alone."""
    table = _config(dimension_count=4).table()
    assert table.inv_freq.tolist() == pytest.approx([1, 0.01])


@pytest.mark.parametrize(
    "keys",
    [
        {"scaling__type": "linear", "scaling__factor": 4.0},
        {"scaling__factor": 4.0},
        {"scale_linear": 4.0},
    ],
)
def test_linear(keys):
    """All frequencies shrink by the factor; older files name only the factor."""
    assert _config(**keys).table().inv_freq[1] == pytest.approx(0.1 / 4)


@pytest.mark.parametrize(
    "keys",
    [{"scaling__type": "none", "scaling__factor": 4.0}, {"scaling__factor": 0.0}],
)
def test_no_scaling(keys):
    """A factor does not count under type none, and 0 stands for no factor."""
    assert _config(**keys).table().inv_freq[1] == pytest.approx(0.1)


def test_factors_divide_one_by_one():
    """Llama 3's factors come as a vector."""
    factors = Vector("rope_freqs.weight", np.array([1, 2, 4, 8], np.float32))
    inv_freq = _config().table(factors).inv_freq
    assert inv_freq.tolist() == pytest.approx([1, 0.05, 0.0025, 0.000125])


def test_factors_that_are_not_positive():
    factors = Vector("rope_freqs.weight", np.array([1, 2, 0, 8], np.float32))
    with pytest.raises(ModelError) as caught:
        _config().table(factors)
    assert caught.value.field == "rope_freqs.weight"


def test_yarn_keeps_fast_pairs_and_stretches_slow_ones():
    """Pairs that turn often within the original context keep their frequency; slow ones are divided."""
    plain = _config(head_dim=64, freq_base=100000.0).table()
    yarn = _config(
        head_dim=64,
        freq_base=100000.0,
        scaling__type="yarn",
        scaling__factor=4.0,
        scaling__original_context_length=512,
    ).table()
    share = yarn.inv_freq / plain.inv_freq
    assert share[0] == 1.0
    assert share[-1] == pytest.approx(0.25)
    assert (np.diff(share) <= 0).all()
    turns = 512 * plain.inv_freq / (2 * math.pi)
    assert share[turns > 32] == pytest.approx(1.0)
    assert share[turns < 1] == pytest.approx(0.25)
    assert yarn.magnitude == pytest.approx(1 + 0.1 * math.log(4))


def test_yarn_parameters():
    """The attention factor multiplies; a log multiplier divides; without extrapolation all is linear."""
    keys = {"scaling__type": "yarn", "scaling__factor": 4.0}
    own = 1 + 0.1 * math.log(4)
    assert _config(**keys, scaling__attn_factor=2.0).table().magnitude == pytest.approx(2 * own)
    multiplied = _config(**keys, scaling__yarn_log_multiplier=0.5).table().magnitude
    assert multiplied == pytest.approx(own / (1 + 0.05 * math.log(4)))
    linear = _config(**keys, scaling__yarn_ext_factor=0.0).table()
    assert linear.inv_freq.tolist() == pytest.approx([0.25, 0.025, 0.0025, 0.00025])
