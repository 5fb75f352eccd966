// softcap: y = cap tanh(x / cap), value by value
//
// Shapes: (N, stride) f32, of which width values a row are used. One thread a value; grid (ceil(width / 128), N).
// No sums. Reference: kernels/reference/softcap.py.
extern "C" __global__ void __launch_bounds__(128)
    softcap(const float* x, float* y, int width, int stride, float cap) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) return;
    size_t at = (size_t)blockIdx.y * stride + i;
    y[at] = cap * tanhf(x[at] / cap);
}
