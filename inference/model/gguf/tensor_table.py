"""The tensor table of a GGUF file: names, formats, shapes, and where the bytes of each tensor lie.

Owns the proof that every tensor lies inside the file and shares no byte with another; reads no
tensor data. Source: the GGUF specification, versions 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.model.errors import GGUFError
from inference.model.gguf.cursor import quoted
from kernels.specs.quants import BY_GGML_TYPE, row_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inference.model.gguf.cursor import Cursor

MAX_TENSORS = 65_536
MAX_NAME_BYTES = 64
MAX_DIMS = 4
_MIN_ENTRY_BYTES = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True)
class TensorEntry:
    """One row of the table. `offset` counts from the start of the tensor data, `shape` is row-major."""

    name: str
    quant: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


def read_tensor_table(cursor: Cursor, count: int, alignment: int) -> list[TensorEntry]:
    """The entries in file order. Raises: GGUFError."""
    if count > MAX_TENSORS:
        raise GGUFError("tensor count", f"is {count}, more than the {MAX_TENSORS} a file may have")
    cursor.require(count * _MIN_ENTRY_BYTES, "tensor table")
    entries = [_read_entry(cursor, index, alignment) for index in range(count)]
    names: set[str] = set()
    for entry in entries:
        if entry.name in names:
            raise GGUFError(f"tensor {quoted(entry.name)}", "appears twice")
        names.add(entry.name)
    return entries


def check_placement(entries: Iterable[TensorEntry], data_bytes: int) -> None:
    """Refuse tensors outside the data_bytes of tensor data, or overlapping. Raises: GGUFError."""
    previous, previous_end = "", 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        field, end = f"tensor {quoted(entry.name)}", entry.offset + entry.num_bytes
        if entry.offset < previous_end:
            raise GGUFError(field, f"overlaps tensor {quoted(previous)}")
        if end > data_bytes:
            raise GGUFError(
                field,
                f"ends at byte {end} of the tensor data, but the file holds {max(data_bytes, 0)}",
            )
        previous, previous_end = entry.name, end


def _read_entry(cursor: Cursor, index: int, alignment: int) -> TensorEntry:
    name = _read_name(cursor, f"name of tensor {index}")
    field = f"tensor {quoted(name)}"
    num_dims = cursor.u32(field)
    if not 1 <= num_dims <= MAX_DIMS:
        raise GGUFError(field, f"has {num_dims} dimensions; 1 to {MAX_DIMS} are possible")
    dims = [cursor.u64(field) for _ in range(num_dims)]
    ggml_type = cursor.u32(field)
    offset = cursor.u64(field)
    # The file's sizes are signed in GGML: 2^63 and more are its negative ones.
    if min(dims) == 0 or max(dims) >= 2**63 or math.prod(dims) >= 2**63:
        raise GGUFError(field, f"has the impossible shape {dims}")
    if ggml_type not in BY_GGML_TYPE:
        raise GGUFError(field, f"has the unknown or removed quant format {ggml_type}")
    if offset % alignment:
        raise GGUFError(field, f"starts at byte {offset}, which is no multiple of {alignment}")
    quant = BY_GGML_TYPE[ggml_type].name
    try:
        num_bytes = math.prod(dims[1:]) * row_bytes(quant, dims[0])
    except ValueError as error:
        raise GGUFError(field, f"has rows of {dims[0]} values: {error}".rstrip(".")) from error
    return TensorEntry(name, quant, tuple(reversed(dims)), offset, num_bytes)


def _read_name(cursor: Cursor, field: str) -> str:
    num_bytes = cursor.u64(field)
    if not 0 < num_bytes <= MAX_NAME_BYTES:
        raise GGUFError(field, f"is {num_bytes} bytes long; names have 1 to {MAX_NAME_BYTES}")
    try:
        return str(cursor.take(num_bytes, field), "utf-8")
    except UnicodeDecodeError as error:
        raise GGUFError(field, "is not valid UTF-8") from error
