"""Every kernel that is compiled for dies, with what it may use: the list that tests and the docs walk.

Owns the records and the reading of sources; compiles nothing. A kernel is an entry of a `.cu` file
under some defines; the entries of one file and one set of defines come out of one image.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from kernels.cuda.formats import FORMATS
from kernels.cuda.kv_types import KV_BLOCK, KV_TYPES

_FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r'^#include "([\w./]+)"$', re.MULTILINE)
_ONCE = "#pragma once\n"

MATMUL_THREADS = 128
GROUPS = 16  # of 8 lanes in a thread block of a matmul
_TILE_BYTES = 72 * 16  # of one token: 64 float4 and a pad after every eighth


@dataclass(frozen=True)
class Kernel:
    """One entry. `arguments` are the codes of its parameters: P a pointer, i an int, f a float.

    static_shared_bytes is exact, of a thread block; max_registers what a thread may use on sm_37.
    """

    name: str
    file: str
    entry: str
    arguments: str
    threads: int
    static_shared_bytes: int
    max_registers: int
    defines: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> str:
        """The file with its includes in it."""
        return source_of(self.file)


@functools.cache
def source_of(file: str) -> str:
    """A file of this folder with every quoted include put in, once each. Raises: FileNotFoundError."""
    return _inlined(file, set())


def _inlined(file: str, seen: set[str]) -> str:
    seen.add(file)
    text = (_FOLDER / file).read_text().replace(_ONCE, "")
    return _INCLUDE.sub(lambda found: "" if found[1] in seen else _inlined(found[1], seen), text)


@dataclass(frozen=True)
class MatmulShape:
    """One entry of matmul.cu: the tokens of a thread block, and the rows of each of its groups."""

    entry: str
    tokens: int
    rows: int
    max_registers: int


MATMULS = (
    MatmulShape("matmul_narrow", 1, 2, 64),
    MatmulShape("matmul_1", 1, 4, 128),
    MatmulShape("matmul_2", 2, 4, 128),
    MatmulShape("matmul_4", 4, 4, 168),
    MatmulShape("matmul_8", 8, 4, 255),
    MatmulShape("matmul_16", 16, 4, 255),
)


@functools.cache
def matmul(format_name: str, shape: MatmulShape) -> Kernel:
    return Kernel(
        f"{shape.entry} {format_name}",
        "matmul.cu",
        shape.entry,
        "PPPPPPPPPiiiiiif",
        MATMUL_THREADS,
        shape.tokens * (_TILE_BYTES + 12),
        shape.max_registers,
        (("FORMAT", format_name),),
    )


@functools.cache
def embed(format_name: str) -> Kernel:
    defines = (("FORMAT", format_name),)
    return Kernel(f"embed {format_name}", "embed.cu", "embed", "PPPPPPiif", 64, 0, 64, defines)


@functools.cache
def rope_append(kv_type: str) -> Kernel:
    arguments, defines = "PPPPPPPPPPiiiiiif", (("KV_TYPE", kv_type.upper()),)
    name = f"rope_append {kv_type}"
    return Kernel(name, "rope.cu", "rope_append", arguments, 128, 0, 64, defines)


@functools.cache
def attend_run(kv_type: str, head_dim: int, group: int) -> Kernel:
    """`group` query heads a thread block, of at most MAX_GROUP."""
    slices = max(1, 128 // (head_dim // 2))
    shared_bytes = 4 * (group * (head_dim + 128 + 3 + slices * head_dim))
    return Kernel(
        f"attend_run {kv_type} {head_dim} x {group}",
        "attention.cu",
        "attend_run",
        "PPPPPPPiiiiiiif",
        128,
        shared_bytes,
        128 if group <= 4 else 168,
        (("KV_TYPE", kv_type.upper()), ("HEAD_DIM", str(head_dim)), ("GROUP", str(group))),
    )


@functools.cache
def combine_runs(head_dim: int) -> Kernel:
    name, defines = f"combine_runs {head_dim}", (("HEAD_DIM", str(head_dim)),)
    return Kernel(name, "combine.cu", "combine_runs", "PPPiiii", head_dim, 0, 64, defines)


MAX_GROUP = 8
MAX_HEAD_DIM = 256

RMS_NORM = Kernel("rms_norm", "rms_norm.cu", "rms_norm", "PPPPPiif", 128, 16, 64)
ADD = Kernel("add", "add.cu", "add", "PPPii", 128, 0, 32)
ADD_BIAS = Kernel("add_bias", "add_bias.cu", "add_bias", "PPPii", 128, 0, 32)
GATED = Kernel("gated", "gated.cu", "gated", "PPPiii", 128, 0, 32)
SOFTCAP = Kernel("softcap", "softcap.cu", "softcap", "PPiif", 128, 0, 32)
TAKE_LOGIT_ROWS = Kernel(
    "take_logit_rows", "take_logit_rows.cu", "take_logit_rows", "PPPii", 128, 0, 32
)

_SORTED_BYTES = 2048 * 8
GROUP_PEAKS = Kernel("group_peaks", "group_peaks.cu", "group_peaks", "PPPii", 128, 0, 32)
ROW_PEAK = Kernel("row_peak", "row_peak.cu", "row_peak", "PPP", 512, _SORTED_BYTES, 48)
WEIGH_RUNS = Kernel("weigh_runs", "weigh_runs.cu", "weigh_runs", "PPPPPii", 128, 0, 32)
HEAVIEST = Kernel("heaviest", "heaviest.cu", "heaviest", "PPPP", 512, _SORTED_BYTES, 48)
DRAW = Kernel("draw", "draw.cu", "draw", "PPPPii", 512, 140, 40)
ADJUST_LOGITS = Kernel("adjust_logits", "adjust_logits.cu", "adjust_logits", "PPPi", 128, 0, 32)
RESTORE_LOGITS = Kernel("restore_logits", "adjust_logits.cu", "restore_logits", "PPPi", 128, 0, 32)

# (head_dim, group) of models that are in use, and of the smallest ones in the tests.
HEAD_SHAPES: tuple[tuple[int, int], ...] = (
    *((32, 2), (64, 3), (64, 4), (64, 7), (64, 8), (80, 1), (96, 1), (128, 2), (128, 4)),
    *((128, 5), (128, 7), (128, 8), (256, 1), (256, 2), (256, 4), (256, 8)),
)

# All types are of one source: those that few choose are listed for the least and most demanding shapes.
_SOME_HEAD_SHAPES = ((32, 2), (64, 4), (128, 4), (128, 8), (256, 8))
_HEAD_SHAPES_OF = {
    "f16": HEAD_SHAPES,
    "q8_0": tuple(shape for shape in HEAD_SHAPES if shape[0] % KV_BLOCK == 0),
    "q4_0": _SOME_HEAD_SHAPES,
    "f32": _SOME_HEAD_SHAPES,
}

CATALOGUE: tuple[Kernel, ...] = (
    *(matmul(name, shape) for name in FORMATS for shape in MATMULS),
    *(embed(name) for name in FORMATS),
    *(
        attend_run(kv_type, *shape)
        for kv_type, shapes in _HEAD_SHAPES_OF.items()
        for shape in shapes
    ),
    *map(combine_runs, sorted({head_dim for head_dim, _ in HEAD_SHAPES})),
    *map(rope_append, KV_TYPES),
    *(RMS_NORM, ADD, ADD_BIAS, GATED, SOFTCAP, TAKE_LOGIT_ROWS),
    *(GROUP_PEAKS, ROW_PEAK, WEIGH_RUNS, HEAVIEST, DRAW, ADJUST_LOGITS, RESTORE_LOGITS),
)
