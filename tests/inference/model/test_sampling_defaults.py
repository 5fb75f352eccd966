from __future__ import annotations

import numpy as np
import pytest

from inference.model.sampling_defaults import SamplingDefaults, read_sampling_defaults

PREFIX = "general.sampling."


def test_a_file_that_says_nothing_changes_nothing():
    assert read_sampling_defaults({"general.name": "tiny"}) == SamplingDefaults()


def test_what_the_file_names_is_read_as_it_was_written():
    metadata = {
        PREFIX + "temp": float(np.float32(0.7)),
        PREFIX + "top_k": 20,
        PREFIX + "top_p": float(np.float32(0.8)),
        PREFIX + "min_p": 0.0,
        PREFIX + "penalty_repeat": float(np.float32(1.05)),
        PREFIX + "penalty_last_n": -1,
    }
    assert read_sampling_defaults(metadata) == SamplingDefaults(0.7, 20, 0.8, 0.0, 1.05, -1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temp", -0.1),
        ("temp", 2.5),
        ("temp", float("nan")),
        ("temp", float("inf")),
        ("temp", "hot"),
        ("temp", True),
        ("top_k", -1),
        ("top_p", 1.5),
        ("min_p", -0.5),
        ("penalty_repeat", 0.0),
        ("penalty_repeat", 1e-30),
        ("penalty_last_n", -2),
        ("top_k", [1, 2]),
    ],
)
def test_a_value_that_makes_no_sense_is_left_out(key, value):
    assert read_sampling_defaults({PREFIX + key: value}) == SamplingDefaults()


@pytest.mark.parametrize("key", ["mirostat", "xtc_probability", "sequence", "unheard_of"])
def test_a_key_without_a_meaning_here_is_left_out_and_logged(key, caplog):
    with caplog.at_level("INFO", logger="inference"):
        assert read_sampling_defaults({PREFIX + key: 1}) == SamplingDefaults()
    assert PREFIX + key in caplog.text
