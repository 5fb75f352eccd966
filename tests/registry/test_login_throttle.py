"""Guessing passwords is slow work; whoever knows theirs is not kept out by others' guesses."""

from __future__ import annotations

import pytest
from django.test import Client

from registry.login_form import THROTTLE
from registry.login_throttle import (
    MAX_ENTRIES,
    MAX_FAILURES_BY_ADDRESS,
    MAX_FAILURES_BY_NAME,
    WINDOW_S,
    LoginThrottle,
)
from tests.fakes.clock import ManualClock

HERE, THERE = "10.0.0.1", "10.0.0.2"
LOGIN = "/admin/login/"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def throttle(clock: ManualClock) -> LoginThrottle:
    return LoginThrottle(clock)


def fail(throttle: LoginThrottle, times: int, name: str = "ada", address: str = HERE) -> None:
    for _ in range(times):
        assert throttle.wait_s(name, address) == 0
        throttle.failed(name, address)


def test_a_name_is_refused_after_its_last_free_failure(throttle, clock) -> None:
    """Until the oldest of them is forgotten, and then once more."""
    fail(throttle, MAX_FAILURES_BY_NAME)
    assert throttle.wait_s("ada", HERE) == pytest.approx(WINDOW_S)
    clock.advance(WINDOW_S - 1)
    assert throttle.wait_s("ada", HERE) == pytest.approx(1)
    clock.advance(1)
    assert throttle.wait_s("ada", HERE) == 0


def test_others_are_not_kept_out(throttle) -> None:
    fail(throttle, MAX_FAILURES_BY_NAME)
    assert throttle.wait_s("grace", HERE) == 0
    assert throttle.wait_s("ada", THERE) == 0


def test_an_address_that_tries_many_names_is_refused_for_all(throttle) -> None:
    for i in range(MAX_FAILURES_BY_ADDRESS):
        fail(throttle, 1, f"name{i}")
    assert throttle.wait_s("ada", HERE) > 0
    assert throttle.wait_s("ada", THERE) == 0


def test_a_success_forgets_the_names_failures_alone(throttle) -> None:
    fail(throttle, MAX_FAILURES_BY_NAME - 1)
    throttle.succeeded("ada", HERE)
    fail(throttle, MAX_FAILURES_BY_NAME)
    assert throttle.wait_s("ada", HERE) > 0


def test_memory_is_bounded(throttle) -> None:
    for i in range(MAX_ENTRIES + 100):
        throttle.failed("ada", str(i))
    assert len(throttle._failures) <= MAX_ENTRIES


@pytest.fixture
def site(make_user) -> Client:
    """Of somebody with a password, seen from a fresh process."""
    make_user()
    THROTTLE.clear()
    yield Client()
    THROTTLE.clear()


def log_in(site: Client, password: str, **extra: str):
    return site.post(LOGIN, {"username": "nobody@example", "password": password}, **extra)


@pytest.mark.django_db
def test_the_right_password_is_refused_too_while_guesses_are(site) -> None:
    for _ in range(MAX_FAILURES_BY_NAME):
        assert "Too many" not in log_in(site, "guess").content.decode()
    refused = log_in(site, "pw")
    assert refused.status_code == 200
    assert "Too many failed logins; try again in 5 min." in refused.content.decode()
    assert "_auth_user_id" not in site.session
    assert log_in(site, "pw", REMOTE_ADDR=THERE).status_code == 302


@pytest.mark.django_db
def test_the_right_password_in_time_opens_the_door(site) -> None:
    for _ in range(3):
        for _ in range(MAX_FAILURES_BY_NAME - 1):
            log_in(site, "guess")
        assert log_in(site, "pw").status_code == 302
