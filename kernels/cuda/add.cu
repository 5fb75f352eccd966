// add: y = x0 + x1, value by value
//
// Shapes: (N, stride) f32, of which width values a row are used. One thread a value; grid (ceil(width / 128), N).
// No sums. Reference: kernels/reference/add.py.
extern "C" __global__ void __launch_bounds__(128)
    add(const float* x0, const float* x1, float* y, int width, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) return;
    size_t at = (size_t)blockIdx.y * stride + i;
    y[at] = x0[at] + x1[at];
}
