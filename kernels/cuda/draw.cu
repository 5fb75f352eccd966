// draw: total[s] = sum of the row's weights; drawn[s] = the first id whose weights up to it add up to more than u total
//
// First the run of 256 values is found by the sums of runs, then the value in it by weights computed anew (survey.cuh).
// Shapes: surveys, findings (S,); logits (L, stride) f32, of which width values a row are used; sums (S, ceil(width / RUN)).
// Mapping: a thread block of 512 threads a survey; a thread has as many neighbouring runs, then one value.
// Order of summation: float64, ascending within a thread and within a warp's halves, then over the warps. The host adds
// in float64 one after the other; the two differ in the last of 53 bits. Deterministic.
// What rounding leaves of u past the end is held below it, so that an item of weight 0 is never drawn.
// Reference: kernels/reference/survey.py: the same id but within 1e-6 of the border between two.
// Predicted: some 5 us at 562 MHz, latency.
#include "survey.cuh"

#define THREADS 512
#define BELOW_ONE 0.99999999999999988897769753748  // 1 - 2^-53: the product is the next smaller number

// Sums of v up to this thread's, including it; of all threads in `total`.
__device__ inline double sum_up_to(double v, double* warp_sums, double& total) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        double before = __shfl_up_sync(0xffffffffu, v, distance);
        if (lane >= distance) v += before;
    }
    __syncthreads();
    if (lane == 31) warp_sums[warp] = v;
    __syncthreads();
    double before = 0.0;
    total = 0.0;
    for (int w = 0; w < THREADS / 32; w++) {
        if (w == warp) before = total;
        total += warp_sums[w];
    }
    return before + v;
}

// Whether the target lies in this thread's share of the whole, which begins at `start`. One thread's does.
__device__ inline bool lies_in(double target, double end, const double* warp_ends, double& start) {
    start = __shfl_up_sync(0xffffffffu, end, 1);
    if (threadIdx.x % 32 == 0) {
        start = 0.0;
        for (int w = 0; w < (int)threadIdx.x / 32; w++) start += warp_ends[w];
    }
    return start <= target && target < end;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    draw(const Survey* surveys, const float* logits, Finding* findings, const float* sums, int width,
         int stride) {
    __shared__ double warp_sums[THREADS / 32], rest;
    __shared__ int chosen;
    Survey survey = surveys[blockIdx.x];
    if (!(survey.scale > 0.0f)) return;
    int num_runs = (width + RUN - 1) / RUN, each = (num_runs + THREADS - 1) / THREADS;
    const float* own = sums + (size_t)blockIdx.x * num_runs;
    int first = threadIdx.x * each, end_run = first + each < num_runs ? first + each : num_runs;
    double sum = 0.0, total, start;
    for (int r = first; r < end_run; r++) sum += (double)own[r];
    double end = sum_up_to(sum, warp_sums, total);
    if (threadIdx.x == 0) findings[blockIdx.x].total = total, chosen = -1;
    if (survey.uniform < 0.0) return;
    double target = survey.uniform * total, most = total * BELOW_ONE;
    target = target < most ? target : most;
    __syncthreads();
    if (lies_in(target, end, warp_sums, start)) {
        int run = first;
        for (int r = first; r < end_run; r++) {
            if (own[r] > 0.0f) run = r, rest = target - start;
            start += (double)own[r];
            if (start > target) break;
        }
        chosen = run;
    }
    __syncthreads();
    if (chosen < 0) return;
    int id = chosen * RUN + threadIdx.x;
    float logit = 0.0f, weight = 0.0f;
    if (threadIdx.x < RUN && id < width) {
        logit = logits[(size_t)survey.row * stride + id];
        weight = weight_of(logit, findings[blockIdx.x].peak, survey.scale);
    }
    end = sum_up_to((double)weight, warp_sums, total);
    most = total * BELOW_ONE;
    target = rest < most ? rest : most;
    if (lies_in(target, end, warp_sums, start)) {
        findings[blockIdx.x].drawn = id, findings[blockIdx.x].drawn_logit = logit;
    }
}
