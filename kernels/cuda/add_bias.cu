// add_bias: y = x + bias, the same bias for every row
//
// Shapes: (N, stride) f32, of which width values a row are used. One thread a value; grid (ceil(width / 128), N).
// No sums. Reference: kernels/reference/add_bias.py.
extern "C" __global__ void __launch_bounds__(128)
    add_bias(const float* x, const float* bias, float* y, int width, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) return;
    size_t at = (size_t)blockIdx.y * stride + i;
    y[at] = x[at] + bias[i];
}
