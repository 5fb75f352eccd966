"""System checks of the control plane's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.checks import (
    check_kv_memory,
    check_model_dirs,
    check_variable_names,
    check_variables_without_effect,
)


def with_values(settings, **values):
    settings.PANTHEON = {**settings.PANTHEON, **values}


@pytest.mark.parametrize(
    ("kv", "context", "ids"), [(100, 200, ["registry.W002"]), (200, 200, []), (0, 200, [])]
)
def test_kv_memory_holds_a_whole_sequence(settings, kv, context, ids):
    with_values(settings, PANTHEON_KV_TOKENS=kv, PANTHEON_CONTEXT_LEN=context)
    assert [message.id for message in check_kv_memory(None)] == ids


def test_model_folders_exist(settings, tmp_path):
    with_values(settings, PANTHEON_MODEL_DIRS=[tmp_path, Path("/nowhere/at/all")])
    (message,) = check_model_dirs(None)
    assert message.id == "registry.W001"
    assert "/nowhere/at/all" in message.msg


def test_a_misspelt_variable_is_named_with_the_likely_one(settings):
    settings.UNKNOWN_VARIABLES = {"PANTHEON_BATCH_SLOT": "PANTHEON_BATCH_SLOTS"}
    (warning,) = check_variable_names(None)
    assert warning.id == "registry.W003"
    assert "PANTHEON_BATCH_SLOT " in warning.msg
    assert warning.hint == "Did you mean PANTHEON_BATCH_SLOTS?"


def test_a_variable_that_cannot_be_followed_is_named_with_the_reason(settings):
    settings.VARIABLES_WITHOUT_EFFECT = {"QWEN35_KV_Q4": "KV pages hold f16."}
    (warning,) = check_variables_without_effect(None)
    assert warning.id == "registry.W004"
    assert "QWEN35_KV_Q4" in warning.msg
    assert warning.hint == "KV pages hold f16."
