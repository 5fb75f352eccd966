// The types keys and values are kept in; -D KV_TYPE=<name> chooses the one a source is compiled for.
//
// A part is one head's keys, or its values, of one page: PAGE_LEN rows of head_dim values. A type is a struct with
//   bytes(head_dim)                       of a part, a multiple of 16
//   put(part, head_dim, row, i, v)        value i of a row, by all lanes of a warp for 32 neighbouring values; fewer
//                                         lanes may come where the type has no blocks
//   eight(part, head_dim, row, i, v)      values i .. i + 7 as floats, i a multiple of 8
//   two(part, head_dim, row, i, v)        values i and i + 1, i even
// Types with blocks have one half-float scale d for 32 values of a row, behind the values of all rows, and need a
// head_dim that is a multiple of 32:
//   Q8_0  d (q - 128), d = largest magnitude / 127        q of 8 bits, kept 128 too large (formats/blocks32.cuh)
//   Q4_0  d (q - 8), d = value of largest magnitude / -8  q of 4 bits; byte j of a block holds values j and j + 16
// Reference: kernels/reference/kv_rounding.py.
#pragma once
#include "bytes.cuh"
#include "half.cuh"
#include "sums.cuh"

#define PAGE_LEN 32
#define KV_BLOCK 32

struct F32 {
    __device__ static inline size_t bytes(int head_dim) { return (size_t)4 * PAGE_LEN * head_dim; }
    __device__ static inline void put(unsigned char* part, int head_dim, int row, int i, float v) {
        ((float*)part)[row * head_dim + i] = v;
    }
    __device__ static inline void eight(const unsigned char* part, int head_dim, int row, int i, float* v) {
        const float4* at = (const float4*)part + (row * head_dim + i) / 4;
        float4 low = at[0], high = at[1];
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    }
    __device__ static inline void two(const unsigned char* part, int head_dim, int row, int i, float* v) {
        float2 pair = ((const float2*)part)[(row * head_dim + i) / 2];
        v[0] = pair.x, v[1] = pair.y;
    }
};

struct F16 {
    __device__ static inline size_t bytes(int head_dim) { return (size_t)2 * PAGE_LEN * head_dim; }
    __device__ static inline void put(unsigned char* part, int head_dim, int row, int i, float v) {
        ((unsigned short*)part)[row * head_dim + i] = float_to_half(v);
    }
    __device__ static inline void eight(const unsigned char* part, int head_dim, int row, int i, float* v) {
        uint4 w = ((const uint4*)part)[(row * head_dim + i) / 8];
        v[0] = low_half(w.x), v[1] = high_half(w.x), v[2] = low_half(w.y), v[3] = high_half(w.y);
        v[4] = low_half(w.z), v[5] = high_half(w.z), v[6] = low_half(w.w), v[7] = high_half(w.w);
    }
    __device__ static inline void two(const unsigned char* part, int head_dim, int row, int i, float* v) {
        unsigned pair = ((const unsigned*)part)[(row * head_dim + i) / 2];
        v[0] = low_half(pair), v[1] = high_half(pair);
    }
};

// The scale of the block that value i of a row is in; the values of all rows take `value_bytes`.
__device__ inline size_t scale_at(int value_bytes, int head_dim, int row, int i) {
    return value_bytes + 2 * (row * (head_dim / KV_BLOCK) + i / KV_BLOCK);
}
__device__ inline float scale_of(const unsigned char* part, size_t at) {
    return half_to_float(*(const unsigned short*)(part + at));
}

struct Q8_0 {
    __device__ static inline int value_bytes(int head_dim) { return PAGE_LEN * head_dim; }
    __device__ static inline size_t bytes(int head_dim) {
        return scale_at(value_bytes(head_dim), head_dim, PAGE_LEN, 0);
    }
    __device__ static inline void put(unsigned char* part, int head_dim, int row, int i, float v) {
        float peak = lane_max<KV_BLOCK>(fabsf(v)), inverse = peak > 0.0f ? 127.0f / peak : 0.0f;
        part[row * head_dim + i] = (unsigned char)(int)(rintf(v * inverse) + 128.0f);
        size_t at = scale_at(value_bytes(head_dim), head_dim, row, i);
        if (i % KV_BLOCK == 0) *(unsigned short*)(part + at) = float_to_half(peak / 127.0f);
    }
    __device__ static inline void eight(const unsigned char* part, int head_dim, int row, int i, float* v) {
        uint2 w = *(const uint2*)(part + row * head_dim + i);
        float d = scale_of(part, scale_at(value_bytes(head_dim), head_dim, row, i));
        unsigned_bytes(w.x, v), unsigned_bytes(w.y, v + 4);
        scale_four(d, -128.0f * d, v), scale_four(d, -128.0f * d, v + 4);
    }
    __device__ static inline void two(const unsigned char* part, int head_dim, int row, int i, float* v) {
        unsigned w = *(const unsigned short*)(part + row * head_dim + i);
        float d = scale_of(part, scale_at(value_bytes(head_dim), head_dim, row, i));
        v[0] = fmaf(d, unsigned_byte(w, 0), -128.0f * d), v[1] = fmaf(d, unsigned_byte(w, 1), -128.0f * d);
    }
};

struct Q4_0 {
    static const int HALF = KV_BLOCK / 2;
    __device__ static inline int value_bytes(int head_dim) { return PAGE_LEN * head_dim / 2; }
    __device__ static inline size_t bytes(int head_dim) {
        return scale_at(value_bytes(head_dim), head_dim, PAGE_LEN, 0);
    }
    // Where value i lies, and in which bits of its byte.
    __device__ static inline int byte_at(int head_dim, int row, int i) {
        return row * (head_dim / 2) + i / KV_BLOCK * HALF + i % HALF;
    }
    __device__ static inline int shift(int i) { return i % KV_BLOCK < HALF ? 0 : 4; }
    __device__ static inline void put(unsigned char* part, int head_dim, int row, int i, float v) {
        float top = lane_max<KV_BLOCK>(v), bottom = lane_max<KV_BLOCK>(-v);
        float d = (top >= bottom ? top : -bottom) / -8.0f, inverse = d != 0.0f ? 1.0f / d : 0.0f;
        int q = (int)fminf(rintf(v * inverse) + 8.0f, 15.0f);
        int high = __shfl_down_sync(0xffffffffu, q, HALF);
        if (i % KV_BLOCK < HALF) part[byte_at(head_dim, row, i)] = (unsigned char)(q | high << 4);
        size_t at = scale_at(value_bytes(head_dim), head_dim, row, i);
        if (i % KV_BLOCK == 0) *(unsigned short*)(part + at) = float_to_half(d);
    }
    __device__ static inline void eight(const unsigned char* part, int head_dim, int row, int i, float* v) {
        uint2 w = *(const uint2*)(part + byte_at(head_dim, row, i));
        float d = scale_of(part, scale_at(value_bytes(head_dim), head_dim, row, i));
        unsigned_bytes(w.x >> shift(i) & 0x0f0f0f0fu, v), unsigned_bytes(w.y >> shift(i) & 0x0f0f0f0fu, v + 4);
        scale_four(d, -8.0f * d, v), scale_four(d, -8.0f * d, v + 4);
    }
    __device__ static inline void two(const unsigned char* part, int head_dim, int row, int i, float* v) {
        unsigned w = *(const unsigned short*)(part + byte_at(head_dim, row, i)) >> shift(i) & 0x0f0fu;
        float d = scale_of(part, scale_at(value_bytes(head_dim), head_dim, row, i));
        v[0] = fmaf(d, unsigned_byte(w, 0), -8.0f * d), v[1] = fmaf(d, unsigned_byte(w, 1), -8.0f * d);
    }
};

// Where the part of a head of page `number` lies.
__device__ inline size_t part_at(int number, int num_kv_heads, int kv_head, int head_dim) {
    return ((size_t)number * num_kv_heads + kv_head) * KV_TYPE::bytes(head_dim);
}
