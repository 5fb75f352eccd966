"""Values remembered for a short time."""

from __future__ import annotations

from registry.timed_cache import TimedCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def counting(cache):
    calls = []

    def get(key):
        return cache.get(key, lambda: calls.append(key) or len(calls))

    return get, calls


def test_a_value_is_loaded_once_until_it_is_old():
    clock = Clock()
    get, calls = counting(TimedCache(5.0, 10, clock))
    assert [get("a"), get("a")] == [1, 1]
    clock.now = 5.0
    assert get("a") == 2
    assert calls == ["a", "a"]


def test_nothing_found_is_remembered_too():
    cache, calls = TimedCache(5.0, 10, Clock()), []
    for _ in range(2):
        assert cache.get("a", lambda: calls.append(1)) is None
    assert calls == [1]


def test_the_oldest_make_room():
    get, calls = counting(TimedCache(5.0, 2, Clock()))
    for key in ("a", "b", "c", "b", "a"):
        get(key)
    assert calls == ["a", "b", "c", "a"]


def test_clearing_forgets():
    cache = TimedCache(5.0, 10, Clock())
    get, _calls = counting(cache)
    get("a")
    cache.clear()
    assert get("a") == 2


def test_a_value_loaded_across_a_clear_is_not_kept():
    """A key that is revoked while it is being looked up must not be remembered as valid."""
    cache = TimedCache(5.0, 10, Clock())

    def load_while_cleared():
        cache.clear()
        return "stale"

    assert cache.get("a", load_while_cleared) == "stale"
    assert cache.get("a", lambda: "fresh") == "fresh"


def test_a_peek_loads_nothing():
    clock = Clock()
    cache = TimedCache(5.0, 10, clock)
    assert cache.peek("a") is None
    cache.get("a", lambda: 7)
    assert cache.peek("a") == 7
    clock.now = 5.0
    assert cache.peek("a") is None
