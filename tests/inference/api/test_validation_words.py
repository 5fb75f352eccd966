"""The words for what a decoder refuses: no type of Python, no notation of its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from inference.api.body import parse
from inference.api.errors import InvalidRequest
from inference.api.validation_words import in_words


def said_of(kind: Any, value: object) -> str:
    body = msgspec.defstruct("Body", [("f", kind)])
    with pytest.raises(InvalidRequest) as refused:
        parse(msgspec.json.encode({"f": value}), msgspec.json.Decoder(body))
    assert refused.value.param == "f"
    return str(refused.value)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (Annotated[float, Meta(ge=0.0, le=2.0)], 3, "'f' must be at most 2."),
        (Annotated[float, Meta(ge=-0.5)], -1, "'f' must be at least -0.5."),
        (Annotated[float, Meta(gt=0.0)], 0, "'f' must be more than 0."),
        (Annotated[int, Meta(le=1 << 31)], 1 << 40, "'f' must be at most 2147483648."),
        (Annotated[list[int], Meta(min_length=1)], [], "'f' must have at least 1 entry."),
        (Annotated[list[int], Meta(max_length=2)], [1] * 3, "'f' must have at most 2 entries."),
        (
            Annotated[dict[str, int], Meta(max_length=0)],
            {"a": 1},
            "'f' must have at most 0 entries.",
        ),
        (Annotated[str, Meta(max_length=2)], "abc", "'f' must have at most 2 characters."),
        (str, 1, "'f' must be a string, not a number."),
        (int, 1.5, "'f' must be a whole number, not a fractional number."),
        (int | str | None, True, "'f' must be a whole number, a string or null, not a boolean."),
        (str | list[str], None, "'f' must be a string or a list, not null."),
        (bool, "yes", "'f' must be true or false, not a string."),
        (dict[str, float], [], "'f' must be an object, not a list."),
        (Literal["drain", "force"], "kill", "'f' cannot be 'kill'."),
        (dict[str, float], {"a": "x"}, "A value of 'f' must be a number, not a string."),
        (
            dict[Annotated[str, Meta(pattern="^x")], int],
            {"a": 1},
            "A key of 'f' does not have the right form.",
        ),
    ],
)
def test_what_is_wrong_is_said_plainly(kind: Any, value: object, said: str) -> None:
    assert said_of(kind, value) == said


def test_a_body_that_is_no_object_is_refused_as_a_whole() -> None:
    with pytest.raises(InvalidRequest, match=r"The request body must be an object, not a list\."):
        parse(b"[]", msgspec.json.Decoder(msgspec.defstruct("Body", [("f", int)])))


def test_what_has_no_words_yet_is_shown_without_quotes_of_code() -> None:
    said = said_of(Annotated[int, Meta(multiple_of=2)], 3)
    assert said == "'f' is wrong: Expected int that's a multiple of 2."


def test_a_value_is_repeated_no_further_than_it_takes_to_know_it() -> None:
    assert in_words("Invalid enum value 'kill'") == "cannot be 'kill'"
    for reason in ("Invalid enum value '" + "x" * 9999 + "'", "Something `new` " + "x" * 9999):
        assert in_words(reason).endswith("x…")
        assert len(in_words(reason)) < 120
