// F32, F16, BF16: the file's own values, read where they are used (a block of them would fill the registers).
#pragma once
#include "formats/parts.cuh"

struct F32 {
    static const int UNROLL = 2;
    const float4* at;
    __device__ void load(const Planes& w, size_t number) { at = (const float4*)w.quants + number * 8; }
    __device__ void four(int j, float* v) const {
        float4 x = __ldg(at + j);
        v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
    }
};

struct F16 {
    static const int UNROLL = 2;
    const uint2* at;
    __device__ void load(const Planes& w, size_t number) { at = (const uint2*)w.quants + number * 8; }
    __device__ void four(int j, float* v) const {
        uint2 x = __ldg(at + j);
        v[0] = low_half(x.x), v[1] = high_half(x.x), v[2] = low_half(x.y), v[3] = high_half(x.y);
    }
};

struct BF16 {
    static const int UNROLL = 2;
    const uint2* at;
    __device__ void load(const Planes& w, size_t number) { at = (const uint2*)w.quants + number * 8; }
    __device__ void four(int j, float* v) const {
        uint2 x = __ldg(at + j);
        v[0] = __uint_as_float(x.x << 16), v[1] = __uint_as_float(x.x & 0xffff0000u);
        v[2] = __uint_as_float(x.y << 16), v[3] = __uint_as_float(x.y & 0xffff0000u);
    }
};
