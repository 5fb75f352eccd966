// row_peak: of the peaks of a row's groups the largest, and the keep-th largest as a bound (survey.cuh)
//
// keep groups have a peak that reaches the bound, so at least keep values do, and hardly more: of 248,320 values in
// random order 589 where 512 are wanted.
// Shapes: surveys, findings (S,); groups (S, GROUPS). Writes peak, best and bound, and 0 and -1 where others count and draw.
// Mapping: a thread block of 512 threads a survey. Only surveys that keep some sort the peaks.
// No sums. Deterministic. Reference: kernels/reference/survey.py, exactly.
// Predicted: 66 passes of the sort, some 15 us at 562 MHz; without it 3 us.
#include "sort.cuh"
#include "survey.cuh"

#define THREADS 512

extern "C" __global__ void __launch_bounds__(THREADS)
    row_peak(const Survey* surveys, const Pair* groups, Finding* findings) {
    __shared__ Pair pairs[GROUPS];
    const Pair* peaks = groups + (size_t)blockIdx.x * GROUPS;
    int keep = surveys[blockIdx.x].keep;
    if (keep) {
        for (int i = threadIdx.x; i < GROUPS; i += THREADS) pairs[i] = peaks[i];
        sort_descending<THREADS>(pairs);
    } else {
        Pair most = 0;
        for (int i = threadIdx.x; i < GROUPS; i += THREADS) most = peaks[i] > most ? peaks[i] : most;
        pairs[threadIdx.x] = most;
        for (int distance = THREADS / 2; distance; distance /= 2) {
            __syncthreads();
            if (threadIdx.x < distance) {
                Pair other = pairs[threadIdx.x + distance];
                if (other > pairs[threadIdx.x]) pairs[threadIdx.x] = other;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x) return;
    Finding found;
    found.total = 0.0;
    found.peak = value_of(key_in(pairs[0]));
    found.best = id_in(pairs[0]);
    found.drawn = -1;
    found.num_collected = 0;
    found.bound = keep ? key_in(pairs[keep - 1]) : 0;
    found.drawn_logit = 0.0f;
    findings[blockIdx.x] = found;
}
