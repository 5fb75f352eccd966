"""Loads and stores of single values at any address. Knows no vectors."""

from __future__ import annotations

from kernels.cpu.simd.halves import HALF, narrow, widen
from kernels.cpu.simd.types import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    define,
    define_load,
    define_store,
    f32,
    f64,
    i32,
    i64,
)

load1_i64, load1_i32, load1_f32 = (
    define_load(I64, i64),
    define_load(I32, i32),
    define_load(F32, f32),
)
load1_f16 = define_load(HALF, f32, widen)
load1_u8 = define_load(I8, i32, lambda b, v: b.zext(v, I32))
load1_i8 = define_load(I8, i32, lambda b, v: b.sext(v, I32))
load1_u16 = define_load(I16, i32, lambda b, v: b.zext(v, I32))

store1_i64, store1_i32, store1_f32 = (
    define_store(I64, i64),
    define_store(I32, i32),
    define_store(F32, f32),
)
store1_f16 = define_store(HALF, f32, narrow)
store1_u8 = define_store(I8, i32, lambda b, v: b.trunc(v, I8))
store1_u16 = define_store(I16, i32, lambda b, v: b.trunc(v, I16))

# A float kept in an int64 column of an op record.
as_f64 = define(f64, (i64,), lambda b, a: b.bitcast(a[0], F64))
bits_as_f32 = define(f32, (i32,), lambda b, a: b.bitcast(a[0], F32))
