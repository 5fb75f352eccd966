// take_logit_rows: y[t] = x[rows[t]]
//
// Shapes: (N, stride) f32, of which width values a row are used; rows (L,) int32. One thread a value; grid
// (ceil(width / 128), L). No sums. Reference: kernels/reference/take_logit_rows.py.
extern "C" __global__ void __launch_bounds__(128)
    take_logit_rows(const float* x, const int* rows, float* y, int width, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) return;
    y[(size_t)blockIdx.y * stride + i] = x[(size_t)rows[blockIdx.y] * stride + i];
}
