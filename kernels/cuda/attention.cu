// attend_run, the second part of attention_qkv: attention over KV pages, split over runs of positions.
//
//   s[h][j] = scale q[t][h] . keys[j]        for positions j <= p of the row's slot, and j > p - window if window > 0
//   y[t][h] = sum_j exp(s[h][j] - m) values[j] / sum_j exp(s[h][j] - m),   m = max_j s[h][j]
//
// attend_run makes, for one row, GROUP query heads and one run of RUN positions, the partial (m, sum, values)
// of every head; combine_runs (combine.cu) joins the runs of a row in ascending order.
//
// Shapes: q (N, stride) f32, heads of HEAD_DIM; keys, values: parts (num_pages, num_kv_heads) of a KV_TYPE
// (kv_types.cuh), HEAD_DIM a multiple of 16 of at most 256; partial (N, num_heads, max_runs, HEAD_DIM + 2) f32:
// values, m, sum. Compiled with -D KV_TYPE, -D HEAD_DIM and -D GROUP, the query heads a thread block takes: those of
// one key/value head, or one of `parts` equal parts of them.
//
// Mapping. attend_run: grid (runs, num_kv_heads * parts, N), 128 threads. Tiles of 128 positions:
//   scores: 16 groups of 8 lanes; a group takes 4 keys at a time, a lane 8 values of each, which it turns to
//     floats once and uses for all query heads; queries lie in shared memory.
//   weights: warp w takes heads w, w + 4, ...
//   values: a thread owns 2 neighbouring dimensions of every SLICESth run of 4 positions; lanes read a row's
//     values side by side.
//
// Order of summation: set by HEAD_DIM, tile and run alone, never by N or the grid; tiles start at multiples of
// 128 positions, so that a row's result is the same whichever chunk it came in. Deterministic.
// RUN is one number for an executor (kernels/cuda/launches.py), a multiple of 128.
// Reference: kernels/reference/attention.py; exp by expf.
#include "budget.cuh"
#include "kv_types.cuh"
#include "runs.cuh"
#include "sums.cuh"

#define THREADS 128
#define TILE 128
#define LANES 8
#define KEYS 4
#define CHUNKS ((HEAD_DIM + LANES * 8 - 1) / (LANES * 8))
#define PAIRS (HEAD_DIM / 2)
#define SLICES (THREADS / PAIRS > 0 ? THREADS / PAIRS : 1)

extern "C" __global__ void __launch_bounds__(THREADS, LEAST_BLOCKS(6))
    attend_run(const float* q, const unsigned char* keys, const unsigned char* values, const int* positions,
               const int* slots, const int* page_table, float* partial, int num_kv_heads, int parts,
               int stride, int pages_per_slot, int run_len, int max_runs, int window, float scale) {
    __shared__ float4 queries[GROUP][HEAD_DIM / 4];
    __shared__ float4 weights[GROUP][TILE / 4];  // floats of four positions, read at once
    __shared__ float maxima[GROUP], totals[GROUP], rescale[GROUP];
    __shared__ float others[SLICES][GROUP][HEAD_DIM];
    int token = blockIdx.z, kv_head = blockIdx.y / parts, first_head = blockIdx.y * GROUP, run = blockIdx.x;
    Span span = seen(positions[token], window);
    int run_end = min((run + 1) * run_len, span.end);
    if (run_end <= max(run * run_len, span.first)) return;
    const int* table = page_table + (size_t)slots[token] * pages_per_slot;

    for (int i = threadIdx.x; i < GROUP * HEAD_DIM; i += THREADS) {
        ((float*)queries)[i] = q[(size_t)token * stride + first_head * HEAD_DIM + i];
    }
    if (threadIdx.x < GROUP) maxima[threadIdx.x] = -INFINITE, totals[threadIdx.x] = 0.0f;
    int pair = threadIdx.x % PAIRS, slice = threadIdx.x / PAIRS;
    float sums[GROUP][2] = {};
    __syncthreads();

    for (int tile = run * run_len; tile < run_end; tile += TILE) {
        if (tile + TILE <= span.first) continue;
        int lane = threadIdx.x % LANES;
        for (int first = threadIdx.x / LANES * KEYS; first < TILE; first += THREADS / LANES * KEYS) {
            float dots[GROUP][KEYS] = {};
            // Four neighbouring positions are of one page. Positions nobody sees are read from the last one seen.
#pragma unroll 1
            for (int c = 0; c < CHUNKS; c++) {
                int d = (c * LANES + lane) * 8;
                if (d >= HEAD_DIM) continue;
                float k[KEYS][8];
#pragma unroll
                for (int i = 0; i < KEYS; i++) {
                    int j = min(tile + first + i, run_end - 1);
                    size_t part = part_at(table[j / PAGE_LEN], num_kv_heads, kv_head, HEAD_DIM);
                    KV_TYPE::eight(keys + part, HEAD_DIM, j % PAGE_LEN, d, k[i]);
                }
#pragma unroll
                for (int h = 0; h < GROUP; h++) {
#pragma unroll
                    for (int e = 0; e < 8; e += 4) {
                        float4 query = queries[h][(d + e) / 4];
#pragma unroll
                        for (int i = 0; i < KEYS; i++) {
                            dots[h][i] = fmaf(query.x, k[i][e], dots[h][i]);
                            dots[h][i] = fmaf(query.y, k[i][e + 1], dots[h][i]);
                            dots[h][i] = fmaf(query.z, k[i][e + 2], dots[h][i]);
                            dots[h][i] = fmaf(query.w, k[i][e + 3], dots[h][i]);
                        }
                    }
                }
            }
            int i = scatter_sums(dots, lane), j = tile + first + i;
            if (lane % (LANES / KEYS) == 0) {
                bool is_seen = j >= span.first && j < run_end;
#pragma unroll
                for (int h = 0; h < GROUP; h++) {
                    ((float*)weights[h])[first + i] = is_seen ? dots[h][0] * scale : -INFINITE;
                }
            }
        }
        __syncthreads();

        for (int h = threadIdx.x / 32; h < GROUP; h += THREADS / 32) {
            float* weight = (float*)weights[h];
            float most = -INFINITE, total = 0.0f;
            for (int j = threadIdx.x % 32; j < TILE; j += 32) most = fmaxf(most, weight[j]);
            most = fmaxf(lane_max<32>(most), maxima[h]);
            for (int j = threadIdx.x % 32; j < TILE; j += 32) {
                weight[j] = expf(weight[j] - most);
                total += weight[j];
            }
            total = lane_sum<32>(total);
            if (threadIdx.x % 32 == 0) {
                rescale[h] = expf(maxima[h] - most);  // 0 in the first tile
                totals[h] = fmaf(totals[h], rescale[h], total);
                maxima[h] = most;
            }
        }
        __syncthreads();

        if (slice < SLICES) {
#pragma unroll
            for (int h = 0; h < GROUP; h++) sums[h][0] *= rescale[h], sums[h][1] *= rescale[h];
            // Positions nobody sees weigh 0; in their place the last one seen is read, which is of this sequence.
            for (int j = 4 * slice; tile + j < run_end && j < TILE; j += 4 * SLICES) {
                float v[4][2];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int position = min(tile + j + i, run_end - 1);
                    size_t part = part_at(table[position / PAGE_LEN], num_kv_heads, kv_head, HEAD_DIM);
                    KV_TYPE::two(values + part, HEAD_DIM, position % PAGE_LEN, 2 * pair, v[i]);
                }
#pragma unroll
                for (int h = 0; h < GROUP; h++) {
                    float4 w = weights[h][j / 4];
#pragma unroll
                    for (int d = 0; d < 2; d++) {
                        sums[h][d] = fmaf(w.x, v[0][d], sums[h][d]);
                        sums[h][d] = fmaf(w.y, v[1][d], sums[h][d]);
                        sums[h][d] = fmaf(w.z, v[2][d], sums[h][d]);
                        sums[h][d] = fmaf(w.w, v[3][d], sums[h][d]);
                    }
                }
            }
        }
        __syncthreads();  // the weights are read before the next tile's are written
    }

    if (slice < SLICES) {
#pragma unroll
        for (int h = 0; h < GROUP; h++) {
            others[slice][h][2 * pair] = sums[h][0], others[slice][h][2 * pair + 1] = sums[h][1];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < GROUP * HEAD_DIM; i += THREADS) {
        int h = i / HEAD_DIM, d = i % HEAD_DIM;
        float sum = 0.0f;
        for (int s = 0; s < SLICES; s++) sum += others[s][h][d];
        size_t head = (size_t)token * gridDim.y * GROUP + first_head + h;
        float* out = partial + (head * max_runs + run) * PARTIAL;
        out[d] = sum;
        if (d == 0) out[HEAD_DIM] = maxima[h], out[HEAD_DIM + 1] = totals[h];
    }
}
