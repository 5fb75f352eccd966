// group_peaks: groups[s][g] = the largest of logits[row(s)][g + GROUPS i] over i, with its id (survey.cuh)
//
// Shapes: surveys (S,); logits (L, stride) f32, of which width values a row are used; groups (S, GROUPS) pairs, 0 where
// a group has no values.
// Mapping: one thread a group, 128 a thread block; grid (GROUPS / 128, S). Lanes read side by side.
// No sums; the lowest id of equal values, so the order does not matter. Deterministic.
// Reference: kernels/reference/survey.py, exactly.
// Predicted for 248,320 values, 562 MHz: 1.0 MB a row, 8 us a row at 125 GB/s; one row alone has 2048 threads with 8
// loads each on the way, 64 KiB, which latency (about 0.6 us) lets through at 100 GB/s.
#include "survey.cuh"

extern "C" __global__ void __launch_bounds__(128)
    group_peaks(const Survey* surveys, const float* logits, Pair* groups, int width, int stride) {
    int group = blockIdx.x * blockDim.x + threadIdx.x;
    const float* row = logits + (size_t)surveys[blockIdx.y].row * stride;
    Pair most = 0;
#pragma unroll 8
    for (int i = group; i < width; i += GROUPS) {
        Pair pair = pair_of(row[i], i);
        most = pair > most ? pair : most;
    }
    groups[(size_t)blockIdx.y * GROUPS + group] = most;
}
