// Bytes to floats: one conversion with a byte selector, which compute capability 3.7 issues at 128 a clock.
#pragma once

// Written so, the compiler folds shift and mask into the conversion's byte selector.
__device__ inline float unsigned_byte(unsigned word, int at) { return (float)(word >> 8 * at & 0xff); }
__device__ inline float signed_byte(unsigned word, int at) {
    return (float)(signed char)(word >> 8 * at & 0xff);
}

__device__ inline void unsigned_bytes(unsigned word, float* v) {
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = unsigned_byte(word, i);
}

// v = scale v - minimum, rounded once.
__device__ inline void scale_four(float scale, float minus_minimum, float* v) {
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = fmaf(scale, v[i], minus_minimum);
}
