"""Compiling kernels ahead of their use, and finding them again.

Owns the names of all kernels and what this process has compiled; knows no program. Importing it
imports numba, for the instruction set and cache folder that `kernels.cpu.kernel_cache` has chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import cfunc

from kernels.cpu import attention, attention_plan, combine, elementwise, norm, quantise, rope
from kernels.cpu.formats import ENTRIES
from kernels.cpu.machine import RUN_SIGNATURE, read_counter, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# op record, step header, thread
_KERNEL_TYPE = "void(CPointer(int64), CPointer(int64), int64)"
_KERNELS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        attention.attention,
        attention_plan.plan_attention,
        combine.combine,
        elementwise.add,
        elementwise.add_bias,
        elementwise.copy_rows,
        elementwise.gate,
        elementwise.softcap,
        norm.rms_norm,
        quantise.quantise,
        rope.prepare_attention,
    )
} | ENTRIES
_compiled: dict[str, Any] = {}


def compile_kernels(names: Iterable[str], report: Callable[[float], None]) -> None:
    """Compile (or load from the cache) the machine and the kernels of these names; report(share done)."""
    missing = sorted(set(names) - _compiled.keys())
    for done, name in enumerate(missing):
        report(done / (len(missing) + 1))
        _compiled[name] = cfunc(_KERNEL_TYPE, cache=True, error_model="numpy")(_KERNELS[name])
    report(len(missing) / (len(missing) + 1))
    run.compile(RUN_SIGNATURE)


def kernel_address(name: str) -> int:
    return int(_compiled[name].address)


def cache_misses() -> int:
    """How many functions this process has compiled because the cache on disk did not have them."""
    kernels = sum(not kernel.cache_hits for kernel in _compiled.values())
    functions = sum(sum(f.stats.cache_misses.values()) for f in (run, read_counter))
    return kernels + functions
