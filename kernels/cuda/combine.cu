// combine_runs, the last part of attention_qkv: the runs of a row joined in ascending order.
//
//   y[t][h] = sum_r values_r exp(m_r - m) / sum_r sum_r exp(m_r - m),   m = max_r m_r,   r the runs the row sees
//
// Shapes: partial (N, num_heads, max_runs, HEAD_DIM + 2) f32: values, m, sum, as attend_run leaves them
// (attention.cu); y (N, num_heads * HEAD_DIM) f32. Compiled with -D HEAD_DIM.
// Mapping: grid (num_heads, N), HEAD_DIM threads, one a value.
// Order of summation: runs in ascending order. Deterministic, the same for any N.
// Reference: kernels/reference/attention.py; exp by expf.
#include "runs.cuh"
#include "sums.cuh"

extern "C" __global__ void __launch_bounds__(HEAD_DIM)
    combine_runs(const float* partial, const int* positions, float* y, int num_heads, int run_len,
                 int max_runs, int window) {
    int head = blockIdx.x, token = blockIdx.y, d = threadIdx.x;
    Span span = seen(positions[token], window);
    const float* in = partial + ((size_t)token * num_heads + head) * max_runs * PARTIAL;
    int first = span.first / run_len, last = (span.end - 1) / run_len;
    float most = -INFINITE, total = 0.0f, sum = 0.0f;
    for (int run = first; run <= last; run++) most = fmaxf(most, in[run * PARTIAL + HEAD_DIM]);
    for (int run = first; run <= last; run++) {
        const float* of = in + run * PARTIAL;
        float share = expf(of[HEAD_DIM] - most);
        total = fmaf(of[HEAD_DIM + 1], share, total);
        sum = fmaf(of[d], share, sum);
    }
    y[(size_t)token * num_heads * HEAD_DIM + head * HEAD_DIM + d] = sum / total;
}
