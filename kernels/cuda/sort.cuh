// 2048 pairs in shared memory put in order, the largest first, by a bitonic network. All threads of the block call it.
#pragma once
#include "survey.cuh"

template <int THREADS>
__device__ inline void sort_descending(Pair* pairs) {
    for (int run = 2; run <= COLLECTED; run *= 2) {
        for (int distance = run / 2; distance; distance /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < COLLECTED / 2; i += THREADS) {
                int low = 2 * i - (i & (distance - 1)), high = low + distance;
                Pair a = pairs[low], b = pairs[high];
                if ((a < b) == !(low & run)) pairs[low] = b, pairs[high] = a;
            }
        }
    }
    __syncthreads();
}
