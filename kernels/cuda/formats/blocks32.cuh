// Formats with one half-float scale d, and some a half-float m, for 32 values.
//   Q4_0  (q - 8) d     Q4_1  q d + m     q of 4 bits
//   Q5_0  (q - 16) d    Q5_1  q d + m     q of 4 + 1 bits
//   Q8_0  (q - 128) d   Q8_F  the same, d a float: what IQ4_NL and IQ4_XS become
// q is never negative here: signed bytes take two conversions, and q d - 128 d is as exact as (q - 128) d.
#pragma once
#include "formats/parts.cuh"

struct Q4_0 {
    static const int UNROLL = 8;
    uint4 q;
    float d;
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint4*)w.quants + number);
        d = half_to_float(__ldg((const unsigned short*)w.scales + number));
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(nibbles_of(q, j), v);
        scale_four(d, -8.0f * d, v);
    }
};

struct Q4_1 {
    static const int UNROLL = 8;
    uint4 q;
    float d, m;
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint4*)w.quants + number);
        unsigned pair = __ldg((const unsigned*)w.scales + number);
        d = low_half(pair), m = high_half(pair);
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(nibbles_of(q, j), v);
        scale_four(d, m, v);
    }
};

struct Q5_0 {
    static const int UNROLL = 8;
    uint4 q;
    unsigned high;
    float d;
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint4*)w.quants + number);
        high = __ldg((const unsigned*)w.highs + number);
        d = half_to_float(__ldg((const unsigned short*)w.scales + number));
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(nibbles_of(q, j) | bits_of(high, j) << 4, v);
        scale_four(d, -16.0f * d, v);
    }
};

struct Q5_1 {
    static const int UNROLL = 8;
    uint4 q;
    unsigned high;
    float d, m;
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint4*)w.quants + number);
        high = __ldg((const unsigned*)w.highs + number);
        unsigned pair = __ldg((const unsigned*)w.scales + number);
        d = low_half(pair), m = high_half(pair);
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(nibbles_of(q, j) | bits_of(high, j) << 4, v);
        scale_four(d, m, v);
    }
};

struct Q8 {
    static const int UNROLL = 8;
    uint4 q[2];
    float d;
    __device__ void load_quants(const Planes& w, size_t number) {
        q[0] = __ldg((const uint4*)w.quants + 2 * number);
        q[1] = __ldg((const uint4*)w.quants + 2 * number + 1);
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(word_of(q[j / 4], j & 3), v);
        scale_four(d, -128.0f * d, v);
    }
};

struct Q8_0 : Q8 {
    __device__ void load(const Planes& w, size_t number) {
        load_quants(w, number);
        d = half_to_float(__ldg((const unsigned short*)w.scales + number));
    }
};

struct Q8_F : Q8 {
    __device__ void load(const Planes& w, size_t number) {
        load_quants(w, number);
        d = __ldg((const float*)w.scales + number);
    }
};
