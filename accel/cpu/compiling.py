"""Compiling kernels ahead of their use, and finding them again.

Owns the names of all kernels and what was compiled for this process; knows no program. Importing it
imports numba, for the instruction set and cache folder that `kernels.cpu.kernel_cache` has chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import cfunc

from accel.cpu.compiling_beside import compiling_beside, halves, has_second_core
from kernels.cpu import (
    attention,
    attention_plan,
    best,
    combine,
    elementwise,
    kernel_cache,
    norm,
    quantise,
    rope,
)
from kernels.cpu.formats import ENTRIES, FORMATS
from kernels.cpu.machine import RUN_SIGNATURE, read_counter, run
from kernels.cpu.pack import compile_format, repack_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# op record, step header, thread
_KERNEL_TYPE = "void(CPointer(int64), CPointer(int64), int64)"
_KERNELS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        attention.attention,
        attention_plan.plan_attention,
        best.find_best,
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
_made_beside: set[str] = set()  # by the second process, for this one


def compile_kernel(name: str) -> None:
    """Compile a kernel, or load it from the cache."""
    if name not in _compiled:
        _compiled[name] = cfunc(_KERNEL_TYPE, cache=True, error_model="numpy")(_KERNELS[name])


def compile_kernels(names: Iterable[str], report: Callable[[float], None]) -> None:
    """Compile (or load from the cache) the machine and the kernels of these names; report(share done).

    Where several are not in the cache, and there is a core for it, a second process does half of it.
    """
    missing = sorted(set(names) - _compiled.keys())
    cold = [name for name in missing if not _is_in_cache(name)] if has_second_core() else []
    _, beside = halves(cold)
    here = [name for name in missing if name not in beside]
    done = 0
    _made_beside.update(beside)
    with compiling_beside(beside):
        for name in here:
            report(done / (len(missing) + 1))
            compile_kernel(name)
            done += 1
    for name in beside:
        report(done / (len(missing) + 1))
        compile_kernel(name)
        done += 1
    report(len(missing) / (len(missing) + 1))
    run.compile(RUN_SIGNATURE)


def _is_in_cache(name: str) -> bool:
    """Whether a file of numba's cache is named for it, if perhaps for another CPU."""
    folder = kernel_cache.configure().folder
    return any(folder.glob(f"*/*.{name}-*.nbi"))


def compile_ahead(quants: Iterable[str] | None, report: Callable[[float], None]) -> int:
    """Compile what models in these weight formats may need (None: in any); the number of kernels.

    Formats that no kernel computes with are left out. report(share done).
    """
    formats = [FORMATS[name] for name in (FORMATS if quants is None else quants) if name in FORMATS]
    for done, fmt in enumerate(formats):
        report(0.3 * done / len(formats))
        compile_format(fmt)
    theirs = {fmt.name.lower() for fmt in formats}
    others = {fmt.name.lower() for fmt in FORMATS.values()} - theirs
    names = [name for name in _KERNELS if _fits(name, others)]
    compile_kernels(names, lambda share: report(0.3 + 0.7 * share))
    report(1.0)
    return len(names) + len(formats)


def _fits(kernel: str, other_formats: set[str]) -> bool:
    """Whether a kernel is called by op records, and not made for one of the other formats."""
    kind, _, rest = kernel.partition("_")
    return kind != "repack" and rest not in other_formats


def kernel_address(name: str) -> int:
    return int(_compiled[name].address)


def cache_misses() -> int:
    """How many functions were compiled, here or beside, because the cache on disk did not have them."""
    kernels = sum(
        name in _made_beside or not kernel.cache_hits for name, kernel in _compiled.items()
    )
    compiled = (run, read_counter, *repack_functions())
    functions = sum(sum(f.stats.cache_misses.values()) for f in compiled)
    return kernels + functions
