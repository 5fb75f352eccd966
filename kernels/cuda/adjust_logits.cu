// adjust_logits: a few logits changed by a sequence's own penalties and bias; restore_logits: as they were
//
//   v = logits[at];  v = v > 0 ? v / repeat : v * repeat;  logits[at] = v - subtract + bias
//
// Shapes: adjustments (n,), no `at` twice; logits f32, `at` counts over all rows; saved (n,) f32 gets the old values.
// Mapping: one thread an adjustment; grid ceil(n / 128). No sums: the host's operations in the host's order, so that the
// bits are the host's. Deterministic.
// Reference: kernels/reference/survey.py, to the bit.
// Predicted: a launch each; 4096 adjustments are 64 KiB.
struct Adjustment {
    int at;
    float repeat, subtract, bias;
};

extern "C" __global__ void __launch_bounds__(128)
    adjust_logits(const Adjustment* adjustments, float* logits, float* saved, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Adjustment a = adjustments[i];
    float v = logits[a.at];
    saved[i] = v;
    v = v > 0.0f ? v / a.repeat : v * a.repeat;
    logits[a.at] = v - a.subtract + a.bias;
}

extern "C" __global__ void __launch_bounds__(128)
    restore_logits(const Adjustment* adjustments, float* logits, const float* saved, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) logits[adjustments[i].at] = saved[i];
}
