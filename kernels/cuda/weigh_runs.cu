// weigh_runs: sums[s][r] = sum over RUN values of exp((v - peak) scale); collects the values that reach the bound
//
// Shapes: surveys, findings (S,); logits (L, stride) f32, of which width values a row are used; sums (S, ceil(width /
// RUN)) f32; collected (S, COLLECTED) pairs in no order, of which num_collected are written, where it is not more.
// Mapping: 16 lanes a run, 8 runs a thread block of 128 threads; grid (ceil(width / 2048), S). Lane l has the values
// 128 (l / 8) + l % 8 + 8 i of its run, i < 16. Blocks of surveys that do not weigh return.
// Order of summation: a lane in ascending i, then neighbours, pairs, fours, and the two halves: what NumPy does with 256
// neighbouring floats, so that equal weights give the host's sums. Deterministic but for the order of what is collected.
// Reference: kernels/reference/survey.py, within 1e-6 of a sum (expf).
// Predicted for 248,320 values, 562 MHz: 1.0 MB a row, 8 us; about 20 instructions a value, 5 us of all multiprocessors.
#include "survey.cuh"

extern "C" __global__ void __launch_bounds__(128)
    weigh_runs(const Survey* surveys, const float* logits, Finding* findings, float* sums, Pair* collected,
               int width, int stride) {
    Survey survey = surveys[blockIdx.y];
    if (!(survey.scale > 0.0f)) return;
    Finding* found = findings + blockIdx.y;
    float peak = found->peak;
    unsigned bound = found->bound;
    int num_runs = (width + RUN - 1) / RUN;
    int run = blockIdx.x * 8 + threadIdx.x / 16, lane = threadIdx.x % 16;
    int first = run * RUN + lane / 8 * 128 + lane % 8;
    const float* row = logits + (size_t)survey.row * stride;
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < 16; i++) {
        int at = first + 8 * i;
        if (at >= width) break;
        float v = row[at];
        sum += weight_of(v, peak, survey.scale);
        if (survey.keep && key_of(v) >= bound) {
            int place = atomicAdd(&found->num_collected, 1);
            if (place < COLLECTED) collected[(size_t)blockIdx.y * COLLECTED + place] = pair_of(v, at);
        }
    }
#pragma unroll
    for (int distance = 1; distance < 16; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0 && run < num_runs) sums[(size_t)blockIdx.y * num_runs + run] = sum;
}
