// gated: y = act(gate) * up, value by value; act is silu or gelu in its tanh form
//
// Shapes: (N, stride) f32, of which width values a row are used. One thread a value; grid (ceil(width / 128), N).
// No sums. Reference: kernels/reference/gated.py. Used where gate and up differ in format (matmul.cu joins them
// otherwise).
#include "activations.cuh"

extern "C" __global__ void __launch_bounds__(128)
    gated(const float* gate, const float* up, float* y, int width, int stride, int activation) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) return;
    size_t at = (size_t)blockIdx.y * stride + i;
    y[at] = activated(activation, gate[at]) * up[at];
}
