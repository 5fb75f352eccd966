"""The environ schema: defaults parse, malformed values are refused with the variable's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from pantheon_site import env


def test_an_empty_environment_gives_every_default() -> None:
    values = env.read({})
    assert set(values) == {setting.name for setting in env.SETTINGS}
    assert values["PANTHEON_BATCH_SLOTS"] == 8
    assert values["DJANGO_DEBUG"] is False


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("DJANGO_DEBUG", "perhaps"),
        ("PANTHEON_BATCH_SLOTS", "33"),
        ("PANTHEON_BATCH_SLOTS", "eight"),
        ("PANTHEON_QUEUE_WAIT_S", "nan"),
        ("PANTHEON_BACKEND", "cuda"),
        ("PANTHEON_CPU_ISA", "sse"),
        ("PANTHEON_MAX_BODY_BYTES", "-1"),
    ],
)
def test_a_malformed_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=name):
        env.read({name: text})


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("PANTHEON_BATCH_SLOTS", "eight", "must be a whole number between 0 and 32"),
        ("PANTHEON_BATCH_SLOTS", "33", "must be a whole number between 0 and 32"),
        ("PANTHEON_QUEUE_WAIT_S", "long", "must be a number between 0 and 3600"),
    ],
)
def test_the_sentence_says_what_it_may_be(name: str, text: str, sentence: str) -> None:
    with pytest.raises(env.BadSetting) as refused:
        env.read({name: text})
    assert str(refused.value) == f"{name} is {text!r}; it {sentence}."


def test_a_misspelt_name_is_found_with_the_closest_known_one() -> None:
    environ = {
        "PANTHEON_BATCH_SLOT": "4",
        "PANTHEON_XYZ": "1",
        "PANTHEON_KV_TOKENS": "0",
        "HOME": "/",
    }
    assert env.unknown_names(environ) == {
        "PANTHEON_BATCH_SLOT": "PANTHEON_BATCH_SLOTS",
        "PANTHEON_XYZ": "",
    }


def test_an_older_name_is_read_and_ours_wins() -> None:
    assert env.read({"BS_QUEUE_DEPTH": "5"})["PANTHEON_QUEUE_DEPTH"] == 5
    both = {"BS_QUEUE_DEPTH": "5", "PANTHEON_QUEUE_DEPTH": "6"}
    assert env.read(both)["PANTHEON_QUEUE_DEPTH"] == 6


def test_full_logits_on_the_slow_link_are_refused() -> None:
    """S50, D18."""
    with pytest.raises(ImproperlyConfigured, match="QWEN35_GPU_FULL_LOGITS"):
        env.read({"QWEN35_GPU_FULL_LOGITS": "1"})


def test_an_env_file_fills_in_what_the_environment_lacks(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# comment\n\nPANTHEON_BATCH_SLOTS=4\nDJANGO_DEBUG=1\n")
    environ = {"DJANGO_DEBUG": "0"}
    env.load_env_file(file, environ)
    assert environ == {"DJANGO_DEBUG": "0", "PANTHEON_BATCH_SLOTS": "4"}


def test_a_line_without_a_value_is_refused(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("PANTHEON_BATCH_SLOTS\n")
    with pytest.raises(ImproperlyConfigured, match="line 1"):
        env.load_env_file(file, {})


def test_set_to_nothing_is_not_set() -> None:
    assert env.read({"PANTHEON_DATA_DIR": "", "BS_QUEUE_DEPTH": ""}) == env.read({})


def test_batching_is_switched_off_by_either_name_and_ours_wins() -> None:
    """D1."""
    assert env.read({"QWEN35_BATCH_SLOTS": "0"})["PANTHEON_BATCH_SLOTS"] == 0
    assert env.read({"QWEN35_BATCH_SLOTS": "1"})["PANTHEON_BATCH_SLOTS"] == 8
    both = {"QWEN35_BATCH_SLOTS": "0", "PANTHEON_BATCH_SLOTS": "4"}
    assert env.read(both)["PANTHEON_BATCH_SLOTS"] == 4


def test_prompts_are_read_token_by_token_when_asked() -> None:
    """S49."""
    assert env.read({"QWEN35_BS_PREFILL_BATCH": "0"})["PANTHEON_PREFILL_CHUNK"] == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("QWEN35_BS_DRIVER_SAMPLE", "0"), ("QWEN35_KV_Q4", "1"), ("PN_ASYNC_POLL_US", "50")],
)
def test_what_is_accepted_and_cannot_be_had_is_named(name: str, text: str) -> None:
    """S49: nothing that is set is silently ignored."""
    (setting,) = (each for each in env.SETTINGS if each.name == name)
    env.read({name: text})
    assert env.without_effect({name: text}) == {name: setting.help}
    assert env.without_effect({name: setting.default}) == env.without_effect({}) == {}
    assert "without effect" in setting.help


def test_the_older_names_of_the_scheduler_s_settings_mean_the_same() -> None:
    """S33, S49."""
    values = env.read(
        {"QWEN35_BS_STATS": "1", "BS_QUEUE_DEPTH": "7", "QWEN35_BS_PREFILL_CHUNK": "64"}
    )
    assert values["PANTHEON_STEP_STATS"] is True
    assert (values["PANTHEON_QUEUE_DEPTH"], values["PANTHEON_PREFILL_CHUNK"]) == (7, 64)
    assert env.read({"QWEN35_BS_PREFILL_BATCH": "0"})["PANTHEON_PREFILL_CHUNK"] == 1
