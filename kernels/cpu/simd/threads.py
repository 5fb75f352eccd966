"""What threads need below Python: atomics, a pause, the futex, calling a kernel by its address.

Owns the few things that depend on the processor family and the operating system (Linux); knows no
barrier and no program.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from kernels.cpu.simd.types import I32, I64, call, define, i32, i64, inline_part, pointer, void

_X86 = platform.machine() in ("x86_64", "AMD64")
_SYS_FUTEX = 202 if _X86 else 98  # the number on aarch64 and other newer ports
_WAIT, _WAKE, _PRIVATE = 0, 1, 128

atomic_add = define(
    i32, (i64, i32), lambda b, a: b.atomic_rmw("add", pointer(b, a[0], I32), a[1], "seq_cst")
)
atomic_load = define(i32, (i64,), lambda b, a: b.load_atomic(pointer(b, a[0], I32), "seq_cst", 4))
cycles = define(i64, (), lambda b, a: call(b, "llvm.readcyclecounter", I64, []))


def _pause(b, a):
    """Tell the core that this is a spin loop (on Arm: hint #1, yield)."""
    if _X86:
        call(b, "llvm.x86.sse2.pause", ir.VoidType(), [])
    elif platform.machine() == "aarch64":
        call(b, "llvm.aarch64.hint", ir.VoidType(), [ir.Constant(I32, 1)])


pause = define(void, (), _pause)


def _futex(b, a):
    """syscall(SYS_futex, address, op, value, NULL): an external symbol, so functions stay cacheable."""
    fn_type = ir.FunctionType(I64, [I64], var_arg=True)
    fn = cgutils.get_or_insert_function(b.module, fn_type, "syscall")
    b.call(fn, [ir.Constant(I64, _SYS_FUTEX), a[0], a[1], b.sext(a[2], I64), ir.Constant(I64, 0)])


_futex_call = define(void, (i64, i64, i32), _futex)


@inline_part
def futex_wait(addr, expected):
    """Sleep while the int32 at addr holds `expected`; may also return for no reason."""
    _futex_call(addr, _WAIT | _PRIVATE, expected)


@inline_part
def futex_wake_all(addr):
    _futex_call(addr, _WAKE | _PRIVATE, i32(0x7FFFFFFF))


def _profile_add(b, a):
    for i, value in enumerate(a[1:]):
        p = pointer(b, b.add(a[0], ir.Constant(I64, 8 * i)), I64)
        b.store(b.add(b.load(p, align=8), value), p, align=8)


# Two int64 counters at an address grow by two values.
profile_add = define(void, (i64, i64, i64), _profile_add)


@intrinsic
def call_kernel(tyctx, address, op, step, tid):
    """Call a compiled kernel, void(int64* op, int64* step, int64 tid), by its address."""

    def codegen(ctx, b, sig, args):
        fn = ir.FunctionType(ir.VoidType(), [I64.as_pointer(), I64.as_pointer(), I64])
        target = b.inttoptr(args[0], fn.as_pointer())
        b.call(target, [pointer(b, args[1], I64), pointer(b, args[2], I64), args[3]])
        return ctx.get_dummy_value()

    return void(i64, i64, i64, i64), codegen
