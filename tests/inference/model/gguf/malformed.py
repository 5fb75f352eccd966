"""Malformed GGUF files, each with the words of its refusal. Knows the format, not the reader."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tests.fakes.gguf_writer import CODES, Row, array, build, pair, small_model, text, type_id


class Case(NamedTuple):
    """`field` is what the refusal must name, `reason` a part of what it must say of it."""

    id: str
    content: bytes
    field: str
    reason: str


def all_cases() -> list[Case]:
    return [
        *_beginnings(),
        *_counts(),
        *_keys(),
        *_values(),
        *_arrays(),
        *_alignments(),
        *_names(),
        *_shapes(),
        *_formats(),
        *_offsets(),
        *_cuts(),
    ]


def _beginnings() -> list[Case]:
    good = small_model()
    cases = [Case("empty file", b"", "magic", "ends after 0")]
    cases += [Case(f"{n} bytes", b"GGUF"[:n], "magic", f"ends after {n}") for n in (1, 2, 3)]
    magics = [
        b"GGML",
        b"FUGG",
        b"gguf",
        b"ggjt",
        b"\0\0\0\0",
        b"PK\3\4",
        b"<htm",
        b"GGUG",
        b"\xff" * 4,
    ]
    cases += [Case(f"magic {m!r}", m + good[4:], "magic", "is not GGUF") for m in magics]
    versions = [0, 1, 4, 5, 255, 2**16, 3 << 16, 2**31, 2**32 - 1]
    cases += [Case(f"version {v}", build(version=v), "version", f"is {v};") for v in versions]
    swapped = [2 << 24, 3 << 24]
    cases += [Case(f"version {v:#x}", build(version=v), "version", "byte-swapped") for v in swapped]
    cases.append(Case("magic alone", b"GGUF", "version", "ends after 0"))
    cases.append(Case("no counts", b"GGUF\3\0\0\0", "tensor count", "ends after 0"))
    return cases


def _counts() -> list[Case]:
    huge = [2**63, 2**64 - 1, 2**40, 65_537]
    one = build([pair("a", "u8", 1)], num_pairs=2, alignment=1)
    cases = [Case(f"{n} pairs", build(num_pairs=n), "metadata count", "more than") for n in huge]
    cases += [Case(f"{n} tensors", build(num_tensors=n), "tensor count", "more than") for n in huge]
    cases += [
        Case("one pair too many", one, "metadata", "ends after"),
        Case("pairs of nothing", build(num_pairs=65_536), "metadata", "ends after"),
        Case("tensors of nothing", build(num_tensors=65_536), "tensor table", "ends after"),
        Case("a tensor too many", build([], [Row()], num_tensors=2), "tensor table", "ends after"),
    ]
    return cases


def _keys() -> list[Case]:
    value = struct.pack("<IB", 0, 1)
    cases = [
        Case("empty key", build([pair("", "u32", 1)]), "metadata key 0", "is 0 bytes long"),
        Case("long key", build([pair("k" * 65_536, "u32", 1)]), "metadata key 0", "65536 bytes"),
        Case("key twice", build([pair("a", "u8", 1)] * 2), "metadata key 'a'", "appears twice"),
        Case(
            "key twice, other type",
            build([pair("a", "u8", 1), pair("b", "u8", 1), pair("a", "string", "x")]),
            "metadata key 'a'",
            "appears twice",
        ),
        Case(
            "long key twice",
            build([pair("k" * 500, "u8", 1)] * 2),
            "metadata key 'kkkkkkkkkkkkkkkkkkkk",
            "appears twice",
        ),
    ]
    for size in (2**63, 2**64 - 1, 2**32, 2**40):
        raw = struct.pack("<Q", size) + b"key" + value
        cases.append(Case(f"key of {size} bytes", build([raw]), "metadata key 0", "bytes long"))
    raw = struct.pack("<Q", 60_000) + b"key" + value
    cases.append(Case("key past the end", build([raw]), "metadata key 0", "ends after"))
    for bad in (b"\xff", b"a\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"):
        content = build([pair(bad, "u32", 1)])
        cases.append(Case(f"key {bad!r}", content, "metadata key 0", "not valid UTF-8"))
    return cases


def _values() -> list[Case]:
    cases = []
    for kind in (13, 14, 255, 2**31, 2**32 - 1):
        content = build([pair("a", kind, bytes(16))])
        cases.append(Case(f"type {kind}", content, "metadata 'a'", f"unknown value type {kind}"))
    for byte in (2, 127, 255):
        content = build([pair("a", "bool", bytes([byte]))])
        cases.append(Case(f"bool {byte}", content, "metadata 'a'", f"the value {byte}"))
    for kind, code in CODES.items():
        short = b"x" * (struct.calcsize(code) - 1)
        raw = text("long enough key") + struct.pack("<I", type_id(kind)) + short
        content = build([raw], alignment=1)
        reason = f"needs {struct.calcsize(code)} bytes"
        cases.append(Case(f"short {kind}", content, "metadata 'long enough key'", reason))
    for size in (2**64 - 1, 2**63, 2**40, 2**32, 10**6):
        raw = text("a") + struct.pack("<IQ", type_id("string"), size) + b"text"
        cases.append(Case(f"string of {size}", build([raw]), "metadata 'a'", f"needs {size} bytes"))
    for bad in (b"\xff\xfe", b"ok\xc3", b"\xed\xbf\xbf"):
        content = build([pair("a", "string", bad)])
        cases.append(Case(f"string {bad!r}", content, "metadata 'a'", "not valid UTF-8"))
    return cases


def _arrays() -> list[Case]:
    cases = []
    for count in (2**64 - 1, 2**63, 2**61, 2**40, 2**32, 100):
        for kind in ("u8", "f64", "bool", "string"):
            content = build([array("a", kind, b"\0" * 16, count=count)])
            cases.append(Case(f"{count} x {kind}", content, "metadata 'a'", "but the file ends"))
    for kind in (13, 99, 2**32 - 1):
        content = build([array("a", kind, bytes(64), count=2)])
        cases.append(Case(f"array of {kind}", content, "metadata 'a'", "array of the unknown"))
    nested = struct.pack("<IQ", type_id("array"), 1)
    for depth in (1, 2, 5_000):
        raw = nested * depth + struct.pack("<IQB", 0, 1, 7)
        content = build([text("a") + struct.pack("<I", type_id("array")) + raw])
        cases.append(Case(f"nested {depth} deep", content, "metadata 'a'", "array of arrays"))
    content = build([array("a", "bool", b"\0\1\2")])
    cases.append(Case("bools of 2", content, "metadata 'a'", "booleans other than"))
    words = [b"good", b"also", b"\xff\xff"]
    content = build([array("tokens", "string", words)])
    cases.append(Case("token not UTF-8", content, "metadata 'tokens'[2]", "not valid UTF-8"))
    for size in (2**64 - 1, 2**40, 1_000):
        raw = text("good") + struct.pack("<Q", size) + b"short"
        content = build([array("tokens", "string", raw, count=2)])
        cases.append(Case(f"token of {size}", content, "metadata 'tokens'[1]", "but the file ends"))
    content = build([array("a", "string", bytes(8 * 2_097_153), count=2_097_153)])
    cases.append(Case("too many strings", content, "metadata 'a'", "to more than 2097152"))
    return cases


def _alignments() -> list[Case]:
    field = "metadata 'general.alignment'"
    cases = []
    for value in (0, 1, 2, 3, 4, 7, 24, 33, 2**17, 2**31, 2**32 - 1):
        content = build([pair("general.alignment", "u32", value)], [Row()], bytes(64))
        cases.append(Case(f"alignment {value}", content, field, f"is {value};"))
    for kind in ("u8", "u16", "i32", "u64", "i64", "f32", "f64", "bool", "string"):
        value = "32" if kind == "string" else 1 if kind == "bool" else 32
        content = build([pair("general.alignment", kind, value)])
        cases.append(Case(f"alignment as {kind}", content, field, "has value type"))
    content = build([array("general.alignment", "u32", [32])])
    cases.append(Case("alignment as array", content, field, "has value type 9"))
    return cases


def _names() -> list[Case]:
    cases = [
        Case("no name", build([], [Row("")], bytes(64)), "name of tensor 0", "is 0 bytes long"),
        Case("long name", build([], [Row("n" * 65)], bytes(64)), "name of tensor 0", "is 65 bytes"),
        Case("name not UTF-8", build([], [Row(b"\xff")], bytes(64)), "name of tensor 0", "UTF-8"),
        Case(
            "name twice",
            build([], [Row("w", offset=0), Row("v", offset=32), Row("w", offset=64)], bytes(96)),
            "tensor 'w'",
            "appears twice",
        ),
    ]
    for size in (2**64 - 1, 2**32, 5_000):
        raw = build([], [Row("weight")], bytes(64))
        raw = raw.replace(text("weight"), struct.pack("<Q", size) + b"weight")
        cases.append(Case(f"name of {size}", raw, "name of tensor 0", f"is {size} bytes"))
    return cases


def _shapes() -> list[Case]:
    cases = []
    for num in (0, 5, 6, 2**31, 2**32 - 1):
        content = build([], [Row(num_dims=num)], bytes(64))
        cases.append(Case(f"{num} dims", content, "tensor 'weight'", f"has {num} dimensions"))
    impossible = [
        (0,),
        (4, 0),
        (0, 4),
        (4, 1, 0),
        (4, 1, 1, 0),
        (-1,),
        (4, -1),
        (4, 1, -4),
        (2**63,),
        (2**63, 2),
        (2**62, 2),
        (2**32, 2**32),
        (2**32, 2**31),
        (2**63 - 1, 2),
        (2**22, 2**21, 2**21),
        (2**16, 2**16, 2**16, 2**16),
        (2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1),
        (4, 2**62),
    ]
    for dims in impossible:
        content = build([], [Row(dims=dims)], bytes(64))
        cases.append(Case(f"shape {dims}", content, "tensor 'weight'", "impossible shape"))
    for dims in ((2**63 - 1,), (2**62 + 1,), (2**40,), (2**20, 2**20), (4, 2**60), (17,), (4, 5)):
        content = build([], [Row(dims=dims)], bytes(64))
        cases.append(Case(f"large {dims}", content, "tensor 'weight'", "but the file holds 64"))
    return cases


def _formats() -> list[Case]:
    cases = []
    for ggml_type in (4, 5, 31, 32, 33, 36, 37, 38, 42, 43, 100, 2**31, 2**32 - 1):
        content = build([], [Row(dims=(256,), ggml_type=ggml_type)], bytes(4096))
        reason = f"unknown or removed quant format {ggml_type}"
        cases.append(Case(f"format {ggml_type}", content, "tensor 'weight'", reason))
    rows = {2: (16, 31, 33), 8: (1, 48), 12: (32, 128, 255, 257), 14: (576,), 20: (31,), 39: (16,)}
    for ggml_type, lengths in rows.items():
        for k in lengths:
            content = build([], [Row(dims=(k, 2), ggml_type=ggml_type)], bytes(4096))
            cases.append(
                Case(f"format {ggml_type}, row of {k}", content, "tensor 'weight'", f"rows of {k}")
            )
    return cases


def _offsets() -> list[Case]:
    cases = []
    for offset in (1, 4, 16, 31, 33, 2**64 - 1):
        content = build([], [Row(offset=offset)], bytes(128))
        cases.append(Case(f"offset {offset}", content, "tensor 'weight'", "no multiple of 32"))
    for offset in (64, 96, 2**20, 2**63, 2**64 - 32):
        content = build([], [Row(offset=offset)], bytes(64))
        cases.append(
            Case(f"offset past the end {offset}", content, "tensor 'weight'", "file holds")
        )
    overlaps = {
        "same place": (Row("a"), Row("b")),
        "inside": (Row("a", (32,), offset=0), Row("b", (4,), offset=64)),
        "by one value": (Row("a", (9,), offset=0), Row("b", (4,), offset=32)),
    }
    for name, rows in overlaps.items():
        content = build([], list(rows), bytes(256))
        cases.append(Case(f"overlap {name}", content, "tensor 'b'", "overlaps tensor 'a'"))
    rows = [Row("b", (9,), offset=0), Row("a", (4,), offset=32)]
    content = build([], rows, bytes(256))
    cases.append(Case("overlap, table out of order", content, "tensor 'a'", "overlaps tensor 'b'"))
    content = build([pair("general.alignment", "u32", 64)], [Row(offset=32)], bytes(128))
    cases.append(Case("offset under own alignment", content, "tensor 'weight'", "multiple of 64"))
    content = build([], [Row(offset=0)], b"")
    cases.append(Case("no data", content, "tensor 'weight'", "file holds 0"))
    return cases


def _cuts() -> list[Case]:
    content = build([], [Row("w", (16,), offset=0), Row("v", (16,), offset=64)], bytes(128))
    return [
        Case(f"data short by {n}", content[:-n], "tensor 'v'", "but the file holds")
        for n in (1, 2, 4, 63, 64)
    ]
