"""Page tokens name their user, until they are too old or changed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry import page_tokens
from registry.page_tokens import page_token, page_token_user


def test_a_token_names_its_user():
    assert page_token_user(page_token("ann")) == "ann"


@pytest.mark.parametrize("token", ["", "page-", "page-x:y:z", "pn-12345678-abc"])
def test_what_is_no_token_names_nobody(token):
    assert page_token_user(token) is None


def test_a_changed_token_names_nobody():
    token = page_token("ann")
    assert page_token_user(token[:-1] + ("A" if token[-1] != "A" else "B")) is None


def test_an_old_token_names_nobody(monkeypatch):
    token = page_token("ann")
    monkeypatch.setattr(page_tokens, "MAX_AGE", timedelta(seconds=-1))
    assert page_token_user(token) is None
