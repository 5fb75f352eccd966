// rope_append, the first part of attention_qkv: bias, head norms, rotation, and the new keys and values into
// the KV pages.
//
//   q, k, v = split(x + bias)
//   q = rope(q gain_q / rms(q)), k = rope(k gain_k / rms(k)), head by head; norms where gains are given
//   x[t][q part] = q;   keys[page][head][offset] = k;   values[page][head][offset] = v, rounded to KV_TYPE
//   rope: (a, b) at (i, i + P) becomes (a cos - b sin, a sin + b cos), P = num_pairs, angles by the table
//
// Shapes: x (N, stride) f32, heads of head_dim values; angles (positions, P, 2) f32 of cos and sin; keys,
// values: parts (num_pages, num_kv_heads) of a KV_TYPE (kv_types.cuh); page_table (slots, pages_per_slot) int32. Compiled
// with -D KV_TYPE. Queries and keys are rotated where they lie in x.
// Mapping: one warp a head; grid (ceil(heads / 4), N), 128 threads. A lane takes pairs lane, lane + 32, ..., then puts
// values lane, lane + 32, ... into the page.
// Order of summation (norms): a lane in ascending pair, first value before second, then values that are not
// rotated; a butterfly over 32. Deterministic, the same for any N.
// Reference: kernels/reference/attention_qkv.py, rope.py, head_rms_norm.py.
#include "kv_types.cuh"
#include "sums.cuh"

// A warp's head: bias, norm, rotation, in place.
__device__ inline void rotate(float* in, const float* b, const float* gain, const float2* turn, int lane,
                              int head_dim, int num_pairs, float eps) {
    float inverse = 1.0f;
    if (gain) {
        float square = 0.0f;
        for (int i = lane; i < num_pairs; i += 32) {
            float first = b ? in[i] + b[i] : in[i];
            float second = b ? in[i + num_pairs] + b[i + num_pairs] : in[i + num_pairs];
            square = fmaf(second, second, fmaf(first, first, square));
        }
        for (int i = 2 * num_pairs + lane; i < head_dim; i += 32) {
            float v = b ? in[i] + b[i] : in[i];
            square = fmaf(v, v, square);
        }
        inverse = 1.0f / sqrtf(lane_sum<32>(square) / (float)head_dim + eps);
    }
    for (int i = lane; i < num_pairs; i += 32) {
        int j = i + num_pairs;
        float first = b ? in[i] + b[i] : in[i], second = b ? in[j] + b[j] : in[j];
        if (gain) first = first * inverse * gain[i], second = second * inverse * gain[j];
        float2 a = turn[i];
        in[i] = first * a.x - second * a.y, in[j] = first * a.y + second * a.x;
    }
    for (int i = 2 * num_pairs + lane; i < head_dim; i += 32) {
        float v = b ? in[i] + b[i] : in[i];
        in[i] = gain ? v * inverse * gain[i] : v;
    }
}

extern "C" __global__ void __launch_bounds__(128)
    rope_append(float* x, const float* bias, const float* q_gain, const float* k_gain, const float2* angles,
                const int* positions, const int* slots, const int* page_table, unsigned char* keys,
                unsigned char* values, int num_heads, int num_kv_heads, int head_dim, int num_pairs,
                int stride, int pages_per_slot, float eps) {
    int head = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (head >= num_heads + 2 * num_kv_heads) return;
    int token = blockIdx.y, position = positions[token];
    float* in = x + (size_t)token * stride + head * head_dim;
    const float* b = bias ? bias + head * head_dim : 0;
    bool is_query = head < num_heads, is_key = !is_query && head < num_heads + num_kv_heads;

    if (is_query || is_key) {
        const float* gain = is_query ? q_gain : k_gain;
        rotate(in, b, gain, angles + (size_t)position * num_pairs, lane, head_dim, num_pairs, eps);
    }
    if (is_query) return;
    if (is_key) b = 0;  // it is in
    __syncwarp();       // lanes put other values than they rotated
    int number = page_table[slots[token] * pages_per_slot + position / PAGE_LEN];
    int kv_head = head - num_heads - (is_key ? 0 : num_kv_heads);
    unsigned char* part = (is_key ? keys : values) + part_at(number, num_kv_heads, kv_head, head_dim);
    for (int i = lane; i < head_dim; i += 32) {
        KV_TYPE::put(part, head_dim, position % PAGE_LEN, i, b ? in[i] + b[i] : in[i]);
    }
}
