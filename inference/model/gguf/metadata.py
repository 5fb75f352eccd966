"""The metadata of a GGUF file: typed key-value pairs, read into plain Python values.

Knows the value types of the format and the one key the format itself uses, `general.alignment`;
knows no other key. Source: the GGUF specification, versions 2 and 3.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from inference.model.errors import GGUFError
from inference.model.gguf.cursor import quoted

if TYPE_CHECKING:
    from inference.model.gguf.cursor import Cursor

# Arrays of numbers and booleans are read-only and one-dimensional.
Value: TypeAlias = bool | int | float | str | list[str] | npt.NDArray[Any]

MAX_PAIRS = 65_536
MAX_KEY_BYTES = 65_535
# Of all arrays together: what a vocabulary of a million tokens and its merges need.
MAX_STRINGS = 2**21

_BOOL, _STRING, _ARRAY, _UINT32 = 7, 8, 9, 4
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_DTYPES = {kind: np.dtype(code) for kind, code in _SCALARS.items()} | {_BOOL: np.dtype(np.uint8)}
_MIN_PAIR_BYTES = 8 + 1 + 4 + 1
_ALIGNMENT_KEY = "general.alignment"
_DEFAULT_ALIGNMENT = 32
_MAX_ALIGNMENT = 65_536


def read_metadata(cursor: Cursor, count: int) -> tuple[dict[str, Value], int]:
    """The pairs, and the alignment of tensor data in bytes. Raises: GGUFError."""
    if count > MAX_PAIRS:
        raise GGUFError("metadata count", f"is {count}, more than the {MAX_PAIRS} a file may have")
    cursor.require(count * _MIN_PAIR_BYTES, "metadata")
    pairs: dict[str, Value] = {}
    alignment = _DEFAULT_ALIGNMENT
    strings_left = MAX_STRINGS
    for index in range(count):
        key = _read_key(cursor, f"metadata key {index}")
        if key in pairs:
            raise GGUFError(f"metadata key {quoted(key)}", "appears twice")
        field = f"metadata {quoted(key)}"
        kind = cursor.u32(field)
        value = (
            _read_array(cursor, field, strings_left)
            if kind == _ARRAY
            else _read_scalar(cursor, kind, field)
        )
        if isinstance(value, list):
            strings_left -= len(value)
        if key == _ALIGNMENT_KEY:
            alignment = _check_alignment(kind, value)
        pairs[key] = value
    return pairs, alignment


def _read_key(cursor: Cursor, field: str) -> str:
    num_bytes = cursor.u64(field)
    if not 0 < num_bytes <= MAX_KEY_BYTES:
        raise GGUFError(field, f"is {num_bytes} bytes long; keys have 1 to {MAX_KEY_BYTES}")
    try:
        return str(cursor.take(num_bytes, field), "utf-8")
    except UnicodeDecodeError as error:
        raise GGUFError(field, "is not valid UTF-8") from error


def _read_scalar(cursor: Cursor, kind: int, field: str) -> bool | int | float | str:
    if kind == _STRING:
        return cursor.string(field)
    if kind == _BOOL:
        byte = cursor.take(1, field)[0]
        if byte > 1:
            raise GGUFError(field, f"is a boolean with the value {byte}; only 0 and 1 are booleans")
        return byte == 1
    if kind not in _SCALARS:
        raise GGUFError(field, f"has the unknown value type {kind}")
    code = _SCALARS[kind]
    value: int | float = struct.unpack(code, cursor.take(struct.calcsize(code), field))[0]
    return value


def _read_array(cursor: Cursor, field: str, strings_left: int) -> list[str] | npt.NDArray[Any]:
    kind = cursor.u32(field)
    count = cursor.u64(field)
    if kind == _STRING:
        cursor.require(count * 8, field)
        if count > strings_left:
            raise GGUFError(field, f"brings the strings in arrays to more than {MAX_STRINGS}")
        return cursor.strings(count, field)
    if kind == _ARRAY:
        raise GGUFError(field, "is an array of arrays, which model files do not use")
    if kind not in _DTYPES:
        raise GGUFError(field, f"is an array of the unknown value type {kind}")
    dtype = _DTYPES[kind]
    values = np.frombuffer(cursor.take(count * dtype.itemsize, field), dtype)
    if kind != _BOOL:
        return values
    if count and values.max() > 1:
        raise GGUFError(field, "has booleans other than 0 and 1")
    return values.view(np.bool_)


def _check_alignment(kind: int, value: Value) -> int:
    field = f"metadata '{_ALIGNMENT_KEY}'"
    if kind != _UINT32 or not isinstance(value, int):
        raise GGUFError(field, f"has value type {kind}; it must be a 32-bit unsigned integer")
    if not 8 <= value <= _MAX_ALIGNMENT or value & (value - 1):
        raise GGUFError(field, f"is {value}; it must be a power of two from 8 to {_MAX_ALIGNMENT}")
    return value
