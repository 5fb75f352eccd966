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

// Sums over 8 neighbouring lanes of all sums[r][c], each lane keeping those of one column, or of two neighbours
// where there are 16, in sums[r][0] and sums[r][1]; returns the (first) column. The additions of every sum are those
// of lane_sum<8>, but lanes that keep different columns share the work: 28 shuffles for 32 sums instead of 96.
// COLUMNS is 1, 2, 4, 8 or 16.
template <int ROWS, int COLUMNS>
__device__ inline int scatter_sums(float (&sums)[ROWS][COLUMNS], int lane) {
    int column = 0, left = COLUMNS;
#pragma unroll
    for (int distance = 4; distance; distance /= 2) {
        bool upper = lane & distance, shared = left > 1;
        if (shared) left /= 2, column += upper ? left : 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!shared) {
                sums[r][0] += __shfl_xor_sync(0xffffffffu, sums[r][0], distance);
                continue;
            }
#pragma unroll
            for (int c = 0; c < left; c++) {
                float given = upper ? sums[r][c] : sums[r][c + left];
                float kept = upper ? sums[r][c + left] : sums[r][c];
                sums[r][c] = kept + __shfl_xor_sync(0xffffffffu, given, distance);
            }
        }
    }
    return column;
}
