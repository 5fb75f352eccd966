// Formats with half-float scales for 256 values and small whole-number scales inside.
//   Q4_K  q (d s) - dmin m      q of 4 bits; s, m of 6 bits for 32 values, kept as a byte each
//   Q5_K  the same              q of 4 + 1 bits
//   Q2_K  q (d s) - dmin m      q of 2 bits; s, m of 4 bits for 16 values
//   Q6_K  (q - 32) (d s)        q of 4 + 2 bits; s of 8 bits, signed, for 16 values. Q3_K becomes this.
#pragma once
#include "formats/parts.cuh"

// d s and -dmin m of one block.
struct ScaleAndMinimum {
    float scale, minus_minimum;
    __device__ void load(const Planes& w, size_t number) {
        unsigned short pair = __ldg((const unsigned short*)w.scales + number);
        unsigned super = __ldg((const unsigned*)w.supers + number / 8);
        scale = low_half(super) * unsigned_byte(pair, 0);
        minus_minimum = -(high_half(super) * unsigned_byte(pair, 1));
    }
};

struct Q4_K {
    static const int UNROLL = 8;
    uint4 q;
    ScaleAndMinimum s;
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint4*)w.quants + number);
        s.load(w, number);
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(nibbles_of(q, j), v);
        scale_four(s.scale, s.minus_minimum, v);
    }
};

struct Q5_K {
    static const int UNROLL = 8;
    uint4 q;
    unsigned high;
    ScaleAndMinimum s;
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint4*)w.quants + number);
        high = __ldg((const unsigned*)w.highs + number);
        s.load(w, number);
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(nibbles_of(q, j) | bits_of(high, j) << 4, v);
        scale_four(s.scale, s.minus_minimum, v);
    }
};

struct Q2_K {
    static const int UNROLL = 8;
    uint2 q;
    float scale[2], minus_minimum[2];
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint2*)w.quants + number);
        unsigned short pair = __ldg((const unsigned short*)w.scales + number);
        unsigned super = __ldg((const unsigned*)w.supers + number / 8);
        for (int half = 0; half < 2; half++) {
            unsigned byte = pair >> 8 * half & 0xff;
            scale[half] = low_half(super) * (float)(byte & 15);
            minus_minimum[half] = -(high_half(super) * (float)(byte >> 4));
        }
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(pairs_of(q, j), v);
        scale_four(scale[j / 4], minus_minimum[j / 4], v);
    }
};

struct Q6_K {
    static const int UNROLL = 8;
    uint4 q;
    uint2 high;
    float scale[2];
    __device__ void load(const Planes& w, size_t number) {
        q = __ldg((const uint4*)w.quants + number);
        high = __ldg((const uint2*)w.highs + number);
        unsigned short pair = __ldg((const unsigned short*)w.scales + number);
        float d = half_to_float(__ldg((const unsigned short*)w.supers + number / 8));
        scale[0] = d * signed_byte(pair, 0), scale[1] = d * signed_byte(pair, 1);
    }
    __device__ void four(int j, float* v) const {
        unsigned_bytes(nibbles_of(q, j) | pairs_of(high, j) << 4, v);
        scale_four(scale[j / 4], -32.0f * scale[j / 4], v);  // exact: one rounding, as of (q - 32) s
    }
};
