// embed: y[t][i] = scale W[token t][i]
//
// Shapes: W (vocabulary, k) in the planes of FORMAT (formats/parts.cuh), k a multiple of 32; y (N, y_stride) f32.
// Mapping: one thread per block of 32 values; grid (ceil(k / 32 / 64), N), 64 threads.
// No sums. Reference: kernels/reference/embed.py, to the last rounding of a value.
#include "formats.cuh"

extern "C" __global__ void __launch_bounds__(64)
    embed(const void* quants, const void* highs, const void* scales, const void* supers, const int* tokens,
          float* y, int k, int y_stride, float scale) {
    int block = blockIdx.x * blockDim.x + threadIdx.x, num_blocks = k / 32;
    if (block >= num_blocks) return;
    Planes weights = {quants, highs, scales, supers};
    FORMAT w;
    w.load(weights, (size_t)tokens[blockIdx.y] * num_blocks + block);
    float4* out = (float4*)(y + (size_t)blockIdx.y * y_stride) + block * 8;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float v[4];
        w.four(j, v);
        float4 scaled = {v[0] * scale, v[1] * scale, v[2] * scale, v[3] * scale};
        out[j] = scaled;
    }
}
