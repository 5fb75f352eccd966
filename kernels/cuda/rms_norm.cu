// rms_norm, rms_norm_add, take_rms_norm: y[t] = x[row] gain / sqrt(mean(x[row]^2) + eps) (+ residual[t])
//
// Shapes: x, y, residual (N, stride) f32, width a multiple of 4; row = rows[t], or t where rows is null.
// Mapping: one thread block of 128 threads a row; a thread takes every 128th float4.
// Order of summation: a thread in ascending index by fmaf, a butterfly over 32 lanes, then the 4 warps in order.
// Deterministic, the same for any N. y may be x or the residual.
// Reference: kernels/reference/rms_norm.py, within 1e-6 of a value.
// Used where the norm cannot be folded into the matmuls that read it (matmul.cu).
#include "sums.cuh"

#define THREADS 128

extern "C" __global__ void __launch_bounds__(THREADS)
    rms_norm(const float* x, const int* rows, const float* gain, const float* residual, float* y, int width,
             int stride, float eps) {
    __shared__ float warp_sums[THREADS / 32];
    size_t row = rows ? rows[blockIdx.x] : blockIdx.x;
    const float4* in = (const float4*)(x + row * stride);
    float square = 0.0f;
    for (int i = threadIdx.x; 4 * i < width; i += THREADS) {
        float4 v = in[i];
        square = fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, square))));
    }
    square = lane_sum<32>(square);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = square;
    __syncthreads();
    float sum = warp_sums[0] + warp_sums[1] + warp_sums[2] + warp_sums[3];
    float inverse = 1.0f / sqrtf(sum / (float)width + eps);
    size_t out = (size_t)blockIdx.x * stride;
    for (int i = threadIdx.x; 4 * i < width; i += THREADS) {
        float4 v = in[i], g = ((const float4*)gain)[i];
        v.x = v.x * inverse * g.x, v.y = v.y * inverse * g.y, v.z = v.z * inverse * g.z,
        v.w = v.w * inverse * g.w;
        if (residual) {
            float4 r = ((const float4*)(residual + out))[i];
            v.x += r.x, v.y += r.y, v.z += r.z, v.w += r.w;
        }
        ((float4*)(y + out))[i] = v;
    }
}
