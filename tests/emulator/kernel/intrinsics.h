// The device functions kernels may call: waiting, warp operations, atomics, bits, arithmetic.
// Warp operations exist in their _sync forms alone, as on every architecture since compute capability 7.0.
#pragma once
#include <cmath>

#include "thread_block.h"

#define threadIdx (emulated::block_state.current->index)
#define blockIdx (emulated::block_state.block_index)
#define blockDim (emulated::block_state.block)
#define gridDim (emulated::block_state.grid)
#define warpSize 32

namespace emulated {
template <class T>
T warp_op(int line, WarpOp op, unsigned mask, T value, int offset, int width = WARP_LANES) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move values of 4 or 8 bytes");
    Thread* me = block_state.current;
    me->op = op;
    me->mask = mask;
    me->offset = offset;
    me->width = width;
    me->value = 0;
    memcpy(&me->value, &value, sizeof(T));
    leave(State::in_warp_op, line);
    T result;
    memcpy(&result, &me->result, sizeof(T));
    return result;
}
}  // namespace emulated

#define __syncthreads() emulated::leave(emulated::State::at_barrier, __LINE__)
#define EMULATED_SYNCWARP(mask, ...) ((void)emulated::warp_op(__LINE__, emulated::WarpOp::sync, (mask), 0, 0))
#define __syncwarp(...) EMULATED_SYNCWARP(__VA_ARGS__ __VA_OPT__(, ) 0xffffffffu, 0)
#define __shfl_sync(mask, ...) \
    emulated::warp_op(__LINE__, emulated::WarpOp::shuffle_index, (mask), __VA_ARGS__)
#define __shfl_up_sync(mask, ...) \
    emulated::warp_op(__LINE__, emulated::WarpOp::shuffle_up, (mask), __VA_ARGS__)
#define __shfl_down_sync(mask, ...) \
    emulated::warp_op(__LINE__, emulated::WarpOp::shuffle_down, (mask), __VA_ARGS__)
#define __shfl_xor_sync(mask, ...) \
    emulated::warp_op(__LINE__, emulated::WarpOp::shuffle_xor, (mask), __VA_ARGS__)
#define __ballot_sync(mask, predicate) \
    emulated::warp_op(__LINE__, emulated::WarpOp::ballot, (mask), unsigned(!!(predicate)), 0)
#define __any_sync(mask, predicate) int(__ballot_sync(mask, predicate) != 0)
#define __all_sync(mask, predicate) int(__ballot_sync(mask, !(predicate)) == 0)

inline void __threadfence() {}
inline void __threadfence_block() {}

// Blocks run in turn and threads never in the middle of each other: plain reads and writes are atomic.
template <class T>
T atomicAdd(T* address, T value) {
    T old = *address;
    *address = old + value;
    return old;
}
template <class T>
T atomicMax(T* address, T value) {
    T old = *address;
    if (value > old) *address = value;
    return old;
}
template <class T>
T atomicExch(T* address, T value) {
    T old = *address;
    *address = value;
    return old;
}
template <class T>
T atomicCAS(T* address, T expected, T value) {
    T old = *address;
    if (old == expected) *address = value;
    return old;
}

template <class T>
T __ldg(const T* address) {
    return *address;
}

namespace emulated {
template <class To, class From>
To bits_of(From value) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To result;
    memcpy(&result, &value, sizeof(To));
    return result;
}
}  // namespace emulated
inline float __int_as_float(int value) { return emulated::bits_of<float>(value); }
inline float __uint_as_float(unsigned value) { return emulated::bits_of<float>(value); }
inline int __float_as_int(float value) { return emulated::bits_of<int>(value); }
inline unsigned __float_as_uint(float value) { return emulated::bits_of<unsigned>(value); }

inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __clz(int value) { return value ? __builtin_clz(unsigned(value)) : 32; }
inline int __ffs(int value) { return __builtin_ffs(value); }

// Bytes of the pair (high, low) chosen by the four low hexadecimal digits of the selector; the digit's high
// bit spreads the chosen byte's sign. PTX ISA, prmt in its default mode.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    uint64_t pair = uint64_t(high) << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned digit = selector >> (4 * i) & 0xf, byte = unsigned(pair >> (8 * (digit & 7)) & 0xff);
        if (digit & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
#define __expf(x) std::exp(float(x))  // glibc declares functions of these names
#define __logf(x) std::log(float(x))

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
