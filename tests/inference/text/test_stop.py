"""Stop strings end the text where the first of them begins, however the text is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inference.text.stop import StopMatcher

cuts = st.lists(st.integers(0, 30), max_size=8)


def run(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    shown = "".join(map(matcher.push, pieces)) + matcher.flush()
    return shown, matcher.hit


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def test_text_before_the_stop_string_is_shown() -> None:
    assert run(["END"], ["one E", "ND two"]) == ("one ", "END")


def test_what_might_begin_a_stop_string_is_held_back() -> None:
    matcher = StopMatcher(["\n\nUser:"])
    assert matcher.push("hello\n") == "hello"
    assert matcher.push("\nUs") == ""
    assert matcher.push("ed\n") == "\n\nUsed"
    assert matcher.flush() == "\n"
    assert matcher.hit is None


def test_nothing_is_shown_after_a_hit() -> None:
    matcher = StopMatcher(["x"])
    assert [matcher.push("axb"), matcher.push("c"), matcher.flush()] == ["a", "", ""]


def test_the_first_to_begin_wins() -> None:
    """Also when another, inside it, is complete earlier."""
    assert run(["bc", "abcd"], list("zabcde")) == ("z", "abcd")
    assert run(["bc", "abcd"], list("zabce")) == ("za", "bc")
    assert run(["bc", "abcd"], list("zabc")) == ("za", "bc")


def test_of_two_at_one_place_the_longer_is_the_hit() -> None:
    assert run(["ab", "abc"], ["xabcd"]) == ("x", "abc")


def test_without_stop_strings_text_passes() -> None:
    assert run([], ["a", "b"]) == ("ab", None)
    assert run([""], ["a", "b"]) == ("ab", None)


@given(
    st.lists(st.text("ab", min_size=1, max_size=5), max_size=4), st.text("ab", max_size=30), cuts
)
def test_cutting_the_text_changes_nothing(stops: list[str], text: str, places: list[int]) -> None:
    """The text shown is what precedes the earliest stop string of the whole text."""
    starts = [text.find(stop) for stop in stops if stop in text]
    shown, hit = run(stops, cut(text, places))
    assert shown == text[: min(starts, default=len(text))]
    assert (hit is not None) == bool(starts)
    if hit is not None:
        assert text.startswith(hit, len(shown))
