// Half floats as the bits they are stored in. Conversions alone: compute capability 3.7 has no half arithmetic.
#pragma once
#include <cuda_fp16.h>

__device__ inline float half_to_float(unsigned short bits) { return __half2float(__ushort_as_half(bits)); }
__device__ inline unsigned short float_to_half(float f) { return __half_as_ushort(__float2half_rn(f)); }
__device__ inline float low_half(unsigned pair) { return half_to_float((unsigned short)(pair & 0xffff)); }
__device__ inline float high_half(unsigned pair) { return half_to_float((unsigned short)(pair >> 16)); }
