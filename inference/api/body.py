"""From the bytes of a request to a checked struct: size, encoding, JSON, types and ranges.

Owns the refusal of everything that is not one well-formed JSON object of the wanted form, naming the
field at fault. Knows nothing about what the fields mean.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import UnreadablePostError

from inference.api.errors import InvalidRequest
from inference.api.threads import off_loop
from inference.api.validation_words import in_words
from inference.http_server.errors import BodyTooLarge

if TYPE_CHECKING:
    from django.http import HttpRequest

T = TypeVar("T", bound=msgspec.Struct)

_AT_FIELD = re.compile(r" - at (?P<key>`key` in )?`\$\.?(?P<path>[^`]*?)(?P<value>\[\.\.\.\])?`$")
_MISSING_FIELD = re.compile(r"^Object missing required field `(?P<name>\w+)`")


@dataclass(frozen=True)
class Body(Generic[T]):
    """The typed value, and every top-level field as it was sent: the typed value forgets unknown ones."""

    value: T
    fields: dict[str, Any]


async def read_body(request: HttpRequest, decoder: msgspec.json.Decoder[T]) -> Body[T]:
    """Raises: BodyTooLarge, InvalidRequest."""
    try:
        raw = request.body
    except RequestDataTooBig as error:
        raise BodyTooLarge(settings.DATA_UPLOAD_MAX_MEMORY_SIZE) from error
    except UnreadablePostError as error:
        raise InvalidRequest("The request body ended too early.") from error
    return await off_loop(lambda: parse(raw, decoder))


def parse(raw: bytes, decoder: msgspec.json.Decoder[T]) -> Body[T]:
    """Raises: InvalidRequest."""
    try:
        value = decoder.decode(raw)
        # Once more, for what the typed pass lets through: duplicate keys, broken text in unknown fields.
        fields = json.loads(raw.decode(), object_pairs_hook=_unique)
    except msgspec.ValidationError as error:
        raise _describe(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest("The request body is not a well-formed JSON object.") from error
    except RecursionError as error:
        raise InvalidRequest("The request body is nested too deeply.") from error
    except ValueError as error:  # json's own limits, such as integers of thousands of digits
        raise InvalidRequest("The request body holds a number that is out of range.") from error
    return Body(value, fields)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for name, value in pairs:
        if name in unique:
            raise InvalidRequest(f"The field '{name[:64]}' is given twice.", name[:64])
        unique[name] = value
    return unique


def _describe(error: msgspec.ValidationError) -> InvalidRequest:
    """The field, and what is wrong with it, from the decoder's message."""
    message = str(error)
    found = _AT_FIELD.search(message)
    path = found["path"] if found else ""
    reason = message[: found.start()] if found else message
    missing = _MISSING_FIELD.match(message)
    if missing:
        path = f"{path}.{missing['name']}".lstrip(".")
        return InvalidRequest(f"'{path}' is required.", path)
    if found is None or not path:
        return InvalidRequest(f"The request body {in_words(reason)}.")
    part = "A key of " if found["key"] else "A value of " if found["value"] else ""
    return InvalidRequest(f"{part}'{path}' {in_words(reason)}.", path)
