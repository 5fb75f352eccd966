// Sums over neighbouring lanes, by a butterfly: the order of additions is the same in every kernel.
#pragma once

#define INFINITE __int_as_float(0x7f800000)

template <int LANES>
__device__ inline float lane_sum(float v) {
#pragma unroll
    for (int distance = LANES / 2; distance; distance /= 2) v += __shfl_xor_sync(0xffffffffu, v, distance);
    return v;
}

template <int LANES>
__device__ inline float lane_max(float v) {
#pragma unroll
    for (int distance = LANES / 2; distance; distance /= 2) {
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, distance));
    }
    return v;
}
