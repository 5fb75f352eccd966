"""Typed reading of a model file's text metadata: each value is of the wanted type, or refused.

Knows the types and bounds a value may have; what the values mean is for `vocabulary`.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from inference.text.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TOKENS = 1 << 20


def read_str(metadata: Mapping[str, object], key: str, default: str) -> str:
    value = metadata.get(key, default)
    if not isinstance(value, str):
        raise TextError(key, f"is a {type(value).__name__} where a string is needed")
    return value


def read_bool(metadata: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = metadata.get(key, default)
    if not isinstance(value, bool | np.bool_):
        raise TextError(key, f"is a {type(value).__name__} where true or false is needed")
    return bool(value)


def read_token_id(
    metadata: Mapping[str, object], key: str, num_tokens: int, default: int | None
) -> int | None:
    """The id under `key`; a default that the vocabulary lacks is None. Raises: TextError."""
    if key not in metadata:
        return default if default is not None and default < num_tokens else None
    value = metadata[key]
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TextError(key, f"is a {type(value).__name__} where a token id is needed")
    if not 0 <= value < num_tokens:
        raise TextError(key, f"is {value}, outside the vocabulary of {num_tokens} tokens")
    return int(value)


def read_strings(metadata: Mapping[str, object], key: str) -> list[str]:
    values = metadata.get(key)
    if values is None:
        raise TextError(key, "is missing; the file holds no usable vocabulary")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TextError(key, "is not an array of strings")
    return values


def read_ints(metadata: Mapping[str, object], key: str, length: int) -> list[int] | None:
    values = _read_array(metadata, key, length)
    if values is None:
        return None
    if not np.issubdtype(values.dtype, np.integer):
        raise TextError(key, "is not an array of integers")
    numbers: list[int] = values.tolist()
    return numbers


def read_floats(metadata: Mapping[str, object], key: str, length: int) -> array[float] | None:
    values = _read_array(metadata, key, length)
    if values is None:
        return None
    if not np.issubdtype(values.dtype, np.floating):
        raise TextError(key, "is not an array of floating point numbers")
    if np.isnan(values).any():
        raise TextError(key, "holds a value that is not a number")
    return array("d", values.astype(np.float64).tobytes())


def _read_array(
    metadata: Mapping[str, object], key: str, length: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None:
    if key not in metadata:
        return None
    values = metadata[key]
    flat = isinstance(values, np.ndarray) and values.ndim == 1
    numbers = isinstance(values, list) and all(isinstance(v, int | float) for v in values)
    if not flat and not numbers:
        raise TextError(key, "is not an array of numbers")
    found = np.asarray(values)
    if len(found) != length:
        raise TextError(key, f"has {len(found)} entries for {length} tokens")
    return found
