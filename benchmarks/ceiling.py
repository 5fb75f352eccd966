"""What this machine can do right now: streaming reads, int8 dot products in vector registers, and in AMX.

    python -m benchmarks.ceiling [THREADS]

The two limits speeds are reported against: bytes of weights a token over read bandwidth (decode),
multiply-adds over the dot-product rate (prompts; with AMX no more than an upper bound, see docs/adr/0005).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from numba import njit

from accel.cpu.memory import Arena
from accel.host import num_cores
from kernels.cpu.simd import (
    HAS_AMX,
    MAX_TILE,
    OPTIONS,
    begin_short,
    dot4_short,
    end_short,
    float_tile,
    hsum_i,
    i64,
    int_tile,
    load_i,
    sum_tile,
)
from kernels.cpu.simd.amx import begin_even, begin_odd, configure_tiles, release_tiles

ROWS = MAX_TILE + MAX_TILE // 8 * 4  # 12 sums where there are 32 registers, else 4


@dataclass(frozen=True)
class Ceiling:
    threads: int
    read_gb_s: float
    multiply_adds_g_s: float
    amx_multiply_adds_g_s: float | None  # None: the host has none, or may not use it


@njit("int64(int64, int64)", **OPTIONS)
def read(address, num_bytes):  # type: ignore[no-untyped-def]
    a, b, c, d = load_i(address), load_i(address), load_i(address), load_i(address)
    for i in range(0, num_bytes, 256):
        a, b = a + load_i(address + i), b + load_i(address + i + 64)
        c, d = c + load_i(address + i + 128), d + load_i(address + i + 192)
    return i64(hsum_i(a + b + c + d))


@njit("int64(int64, int64)", **OPTIONS)
def dots(address, repeats):  # type: ignore[no-untyped-def]
    """ROWS x 64-byte weights of 4 bits, all in the first-level cache."""
    total = load_i(address)
    for i in range(repeats):
        at = address + 64 * (i % 16)  # else a compiler need not repeat anything
        short = begin_short(int_tile(float_tile(ROWS)))
        for j in range(8):
            short = dot4_short(short, load_i(at + 64 * j), at + 4 * j, 64)
        total = total + sum_tile(end_short(int_tile(float_tile(ROWS)), short))
    return i64(hsum_i(total))


@njit(**OPTIONS)  # compiled when called: only hosts with AMX can
def products(address, repeats):  # type: ignore[no-untyped-def]
    """Two tiles of 16 x 16 x 64 a turn, loaded anew from the first-level cache: 32768 multiply-adds."""
    configure_tiles(address + 4096, 16, 64)
    for _ in range(repeats):
        begin_even(address, 64, address + 1024)
        begin_odd(address + 2048, 64, address + 3072)
    release_tiles()
    return 0


def _seconds(function: Callable[..., int], calls: list[tuple[int, int]]) -> float:
    threads = [threading.Thread(target=function, args=args) for args in calls]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def measure(threads: int, num_bytes: int = 192 << 20, repeats: int = 200_000) -> Ceiling:
    """The best of five of each."""
    arena = Arena("the ceiling")
    data = arena.take(num_bytes)
    data[:] = 1
    share = num_bytes // threads // 4096 * 4096
    base = data.ctypes.data
    parts = [(base + t * share, share) for t in range(threads)]
    reading = min(_seconds(read, parts) for _ in range(5))
    counting = min(_seconds(dots, [(base, repeats)] * threads) for _ in range(5))
    amx = None
    if HAS_AMX:
        own = [(base + 8192 * t, repeats) for t in range(threads)]  # each writes a configuration
        multiplying = min(_seconds(products, own) for _ in range(5))
        amx = round(32768 * repeats * threads / multiplying / 1e9, 1)
    return Ceiling(
        threads,
        round(share * threads / reading / 1e9, 1),
        round(8 * 64 * ROWS * repeats * threads / counting / 1e9, 1),
        amx,
    )


def median_of(ceilings: Sequence[Ceiling]) -> Ceiling:
    """Of several measurements with as many threads."""
    amx = [each.amx_multiply_adds_g_s for each in ceilings if each.amx_multiply_adds_g_s]
    return Ceiling(
        ceilings[0].threads,
        median(each.read_gb_s for each in ceilings),
        median(each.multiply_adds_g_s for each in ceilings),
        median(amx) if amx else None,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(measure(int(sys.argv[1]) if len(sys.argv) > 1 else num_cores()))))
