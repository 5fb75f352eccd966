"""What a decoder found wrong with a value, in words for whoever sent it.

Owns the translation of msgspec's messages, which speak of Python's types. Knows no field and no request.
"""

from __future__ import annotations

import re

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_GOT = {**_EXPECTED, "int": "a number", "float": "a fractional number", "bool": "a boolean"}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_UNITS = {"str": "character", "array": "entry", "object": "entry"}
_PLURALS = {"character": "characters", "entry": "entries"}

_MAX_SHOWN_LEN = 80

_TYPE = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>\w+)`")
_LENGTH = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<bound>[<>]=) (?P<limit>\d+)")
_RANGE = re.compile(r"Expected `\w+` (?P<bound>[<>]=?) (?P<limit>-?[\d.e+]+)")
_CHOICE = re.compile(r"Invalid (?:enum )?value (?P<value>.+)", re.DOTALL)
_PATTERN = re.compile(r"Expected `str` matching regex")


def in_words(reason: str) -> str:
    """What completes "'temperature' …": `must be at most 2`, `must be a string, not a number`."""
    if found := _TYPE.fullmatch(reason):
        *others, last = [_EXPECTED.get(kind, kind) for kind in found["wanted"].split(" | ")]
        wanted = f"{', '.join(others)} or {last}" if others else last
        return f"must be {wanted}, not {_GOT.get(found['got'], found['got'])}"
    if found := _LENGTH.fullmatch(reason):
        unit = _UNITS.get(found["kind"], "entry")
        shown = unit if found["limit"] == "1" else _PLURALS[unit]
        return f"must have {_BOUNDS[found['bound']]} {found['limit']} {shown}"
    if found := _RANGE.fullmatch(reason):
        return f"must be {_BOUNDS[found['bound']]} {found['limit'].removesuffix('.0')}"
    if found := _CHOICE.fullmatch(reason):
        return f"cannot be {_short(found['value'])}"
    if _PATTERN.match(reason):
        return "does not have the right form"
    return f"is wrong: {_short(reason.replace('`', ''))}"


def _short(text: str) -> str:
    """What was sent is repeated to be recognised, not to be sent back."""
    return text if len(text) <= _MAX_SHOWN_LEN else f"{text[:_MAX_SHOWN_LEN]}…"
