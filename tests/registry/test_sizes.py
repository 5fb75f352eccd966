"""Byte counts and counts as people read them."""

from __future__ import annotations

import pytest

from registry.sizes import counted, format_bytes, format_count


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1 KiB"),
        (23_040, "22 KiB"),
        (1 << 20, "1.0 MiB"),
        (8_482_560_409, "7.9 GiB"),
    ],
)
def test_bytes(num_bytes, text):
    assert format_bytes(num_bytes) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "unknown"), (999, "999"), (134_515_008, "135 M"), (8_030_000_000, "8.0 B")],
)
def test_counts(count, text):
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (8192, "8,192 tokens")]
)
def test_one_is_singular(count, text):
    assert counted(count, "token") == text
