// CUDA's built-in vector types, with their sizes and alignments.
#pragma once

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulated {
template <class T, int alignment>
struct alignas(alignment) Two {
    T x, y;
};
template <class T, int alignment>
struct alignas(alignment) Four {
    T x, y, z, w;
};
}  // namespace emulated

using uchar2 = emulated::Two<unsigned char, 2>;
using char2 = emulated::Two<signed char, 2>;
using ushort2 = emulated::Two<unsigned short, 4>;
using short2 = emulated::Two<short, 4>;
using uint2 = emulated::Two<unsigned, 8>;
using int2 = emulated::Two<int, 8>;
using float2 = emulated::Two<float, 8>;
using uchar4 = emulated::Four<unsigned char, 4>;
using char4 = emulated::Four<signed char, 4>;
using ushort4 = emulated::Four<unsigned short, 8>;
using short4 = emulated::Four<short, 8>;
using uint4 = emulated::Four<unsigned, 16>;
using int4 = emulated::Four<int, 16>;
using float4 = emulated::Four<float, 16>;

inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) {
    return {x, y, z, w};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
