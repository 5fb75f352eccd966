"""The packed weights of a program, and the vectors and tables beside them.

Owns what is packed once and by whom it is used; knows no kernel and no op record.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import PAGE_LEN
from accel.cpu.memory import round_up
from accel.errors import UnsupportedProgram
from kernels.cpu.errors import UnsupportedWeight
from kernels.cpu.pack import PackedPart, can_gate, compile_repacking, pack_gated, pack_weight

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from accel.cpu.memory import Arena
    from kernels.specs.program import Op, Program
    from kernels.specs.tensor import RopeTable, Vector, Weight


class PackedWeights:
    """Every weight of a program, packed once; a gate and its up interleaved where they can be."""

    def __init__(self) -> None:
        self._parts: dict[Weight | tuple[Weight, ...], tuple[PackedPart, ...]] = {}
        self._vectors: dict[Vector, npt.NDArray[np.float32]] = {}
        self._angles: dict[tuple[RopeTable, int], AngleTables] = {}

    def parts(self, op: Op) -> tuple[PackedPart, ...]:
        """Parts that one input is multiplied with: of the op's weight, or all of its gate and up."""
        if op.weights in self._parts:
            return self._parts[op.weights]
        return tuple(part for weight in op.weights for part in self._parts[weight])

    def is_gated_pair(self, op: Op) -> bool:
        """Whether gate and up are packed as one."""
        return op.weights in self._parts

    def weight(self, weight: Weight) -> tuple[PackedPart, ...]:
        return self._parts[weight]

    def vector(self, vector: Vector | None) -> int:
        """Address of float32 values, padded to whole SIMD vectors; 0 for none."""
        if vector is None:
            return 0
        if vector not in self._vectors:
            padded = np.zeros(round_up(len(vector.values), 16), np.float32)
            padded[: len(vector.values)] = vector.values
            self._vectors[vector] = padded
        return self._vectors[vector].ctypes.data

    def angles(self, rope: RopeTable, num_pages: int) -> AngleTables:
        key = (rope, num_pages)
        if key not in self._angles:
            self._angles[key] = AngleTables(rope, num_pages)
        return self._angles[key]

    def arrays(self) -> list[npt.NDArray[np.generic]]:
        """Everything records point at. Unlike this object it knows no tensor, so the file can go."""
        found: list[npt.NDArray[np.generic]] = [
            p.data for parts in self._parts.values() for p in parts
        ]
        found += self._vectors.values()
        for tables in self._angles.values():
            found += (tables.pages, tables.offsets)
        return found


class AngleTables:
    """Cosines and sines of a page's first position, and of an offset within a page.

    Shapes: pages (num_pages, 2, n), offsets (PAGE_LEN, 2, n) float32, n the number of pairs padded to
    whole vectors. The rotation's magnitude is in `offsets`.
    """

    def __init__(self, rope: RopeTable, num_pages: int) -> None:
        self.pages = _cos_sin(np.arange(num_pages) * PAGE_LEN, rope.inv_freq)
        self.offsets = _cos_sin(np.arange(PAGE_LEN), rope.inv_freq) * np.float32(rope.magnitude)


def _cos_sin(
    positions: npt.NDArray[np.int64], inv_freq: npt.NDArray[np.float64]
) -> npt.NDArray[np.float32]:
    angles = np.zeros((len(positions), round_up(len(inv_freq), 16)))
    angles[:, : len(inv_freq)] = positions[:, None] * inv_freq
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def pack_weights(
    program: Program, memory: Arena, num_threads: int, report: Callable[[float], None]
) -> PackedWeights:
    """Pack every weight of the program once; report(share done). Raises: UnsupportedProgram, OutOfMemory."""
    packed = PackedWeights()
    jobs = _jobs(program)
    total = sum(_num_bytes(job) for job in jobs) or 1
    done = 0
    try:
        compile_repacking({weight: None for job in jobs for weight in job})
        with ThreadPoolExecutor(num_threads) as pool:
            for job in jobs:
                report(done / total)
                if len(job) == 2:
                    packed._parts[job] = (pack_gated(job[0], job[1], memory, pool),)
                else:
                    packed._parts[job[0]] = pack_weight(job[0], memory, pool)
                done += _num_bytes(job)
    except UnsupportedWeight as error:
        raise UnsupportedProgram("cpu", f"the weight {error.name}: {error.reason}") from error
    report(1.0)
    return packed


def _jobs(program: Program) -> list[tuple[Weight, ...]]:
    """What to pack, once each: gate and up together where a kernel takes them so."""
    jobs: dict[tuple[Weight, ...], None] = {}
    for op in program.ops:
        if op.kind == "matmul_gated" and can_gate(*op.weights):
            jobs[op.weights] = None
        else:
            for weight in op.weights:
                jobs[(weight,)] = None
    return list(jobs)


def _num_bytes(job: tuple[Weight, ...]) -> int:
    return sum(part.tensor.num_bytes for weight in job for part in weight.parts)
