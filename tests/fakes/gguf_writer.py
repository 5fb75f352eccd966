"""A writer of GGUF files that also writes wrong ones. Knows nothing of the reader under test."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

TYPES = (
    "u8",
    "i8",
    "u16",
    "i16",
    "u32",
    "i32",
    "f32",
    "bool",
    "string",
    "array",
    "u64",
    "i64",
    "f64",
)
CODES = {
    **{"u8": "<B", "i8": "<b", "u16": "<H", "i16": "<h", "u32": "<I", "i32": "<i", "f32": "<f"},
    **{"bool": "<?", "u64": "<Q", "i64": "<q", "f64": "<d"},
}


def type_id(kind: str) -> int:
    return TYPES.index(kind)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind: str, value: Any) -> bytes:
    return text(value) if kind == "string" else struct.pack(CODES[kind], value)


def pair(key: str | bytes, kind: str | int, value: Any) -> bytes:
    """A key with a scalar; bytes as `value` of a numeric type are written as they are."""
    number = type_id(kind) if isinstance(kind, str) else kind
    raw = value if isinstance(value, bytes) and kind != "string" else scalar(str(kind), value)
    return text(key) + struct.pack("<I", number) + raw


def array(key: str, kind: str | int, values: Any, *, count: int | None = None) -> bytes:
    """A key with an array; bytes as `values` are the elements as they are."""
    number = type_id(kind) if isinstance(kind, str) else kind
    raw = values if isinstance(values, bytes) else b"".join(scalar(str(kind), v) for v in values)
    num = len(values) if count is None else count
    return text(key) + struct.pack("<IIQ", type_id("array"), number, num) + raw


@dataclass(frozen=True)
class Row:
    """One entry of the tensor table; `dims` as in the file (contiguous first), F32 by default."""

    name: str | bytes = "weight"
    dims: tuple[int, ...] = (4,)
    ggml_type: int = 0
    offset: int = 0
    num_dims: int | None = None

    def encode(self) -> bytes:
        num_dims = len(self.dims) if self.num_dims is None else self.num_dims
        dims = struct.pack(f"<{len(self.dims)}Q", *(dim % 2**64 for dim in self.dims))
        return (
            text(self.name)
            + struct.pack("<I", num_dims)
            + dims
            + struct.pack("<IQ", self.ggml_type, self.offset)
        )


def build(
    pairs: list[bytes] | None = None,
    rows: list[Row] | None = None,
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_pairs: int | None = None,
    num_tensors: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file: header, table, padding, tensor data."""
    pairs, rows = pairs or [], rows or []
    header = magic + struct.pack(
        "<IQQ",
        version,
        len(rows) if num_tensors is None else num_tensors,
        len(pairs) if num_pairs is None else num_pairs,
    )
    head = header + b"".join(pairs) + b"".join(row.encode() for row in rows)
    return head + bytes(-len(head) % alignment) + data


def small_model() -> bytes:
    """A valid file with every value type, several tensors and a header longer than 4 KiB."""
    pairs = [pair("general.architecture", "string", "llama"), pair("general.alignment", "u32", 64)]
    pairs += [pair(f"x.{kind}", kind, 1) for kind in CODES]
    pairs += [array(f"a.{kind}", kind, [0, 1, 1]) for kind in CODES]
    pairs += [array("tokens", "string", [f"token-{i}-é" for i in range(250)])]
    rows = [
        Row("a.weight", (32, 3), 8, 0),
        Row("b.weight", (4,), 0, 128),
        Row("c.weight", (256, 2, 2), 12, 192),
    ]
    return build(pairs, rows, bytes(range(256)) * 4, alignment=64)
