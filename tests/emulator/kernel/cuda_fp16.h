// Half floats on the host, as far as compute capability 3.7 has them: conversions and bits.
// Stands in for CUDA's header of this name.
#pragma once
#include <cstring>
#ifdef __F16C__
#include <immintrin.h>
#endif

struct alignas(2) __half {
    unsigned short bits;
};

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half h) { return h.bits; }

#ifdef __F16C__

inline float __half2float(__half h) { return _cvtsh_ss(h.bits); }
inline __half __float2half_rn(float f) { return {_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT)}; }

#else

namespace emulated {
inline float float_of_bits(unsigned bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
inline unsigned bits_of_float(float f) {
    unsigned bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
}  // namespace emulated

inline float __half2float(__half h) {
    unsigned sign = (h.bits & 0x8000u) << 16, magnitude = (h.bits & 0x7fffu) << 13;
    if ((h.bits & 0x7c00u) == 0x7c00u) return emulated::float_of_bits(sign | 0x7f800000u | magnitude);
    // In a float's fields the exponent is 112 too small; the product corrects it, for subnormals too.
    return emulated::float_of_bits(sign |
                                   emulated::bits_of_float(emulated::float_of_bits(magnitude) * 0x1p112f));
}

inline __half __float2half_rn(float f) {
    unsigned bits = emulated::bits_of_float(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    unsigned half;
    if (magnitude > 0x7f800000u)
        half = 0x7fff;
    else if (magnitude >= 0x477ff000u)
        half = 0x7c00;                 // rounds past 65504
    else if (magnitude < 0x38800000u)  // subnormal: a float addition rounds at the right bit
        half = emulated::bits_of_float(emulated::float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
    else
        half = (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13;
    return {static_cast<unsigned short>(sign | half)};
}

#endif

inline __half __float2half(float f) { return __float2half_rn(f); }
