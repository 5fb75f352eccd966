"""A fresh install gets one admin account, once."""

from __future__ import annotations

import pytest
from django.contrib.auth import authenticate

from inference.management.first_login import FIRST_ADMIN, make_first_admin

pytestmark = pytest.mark.django_db


def test_the_first_start_makes_an_admin_who_can_log_in() -> None:
    password = make_first_admin()
    assert password is not None and len(password) >= 16
    user = authenticate(username=FIRST_ADMIN, password=password)
    assert user is not None and user.is_superuser


def test_later_starts_make_no_other() -> None:
    make_first_admin()
    assert make_first_admin() is None
