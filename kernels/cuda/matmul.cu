// matmul, matmul_add, matmul_gated; with the norm of their input folded in.
//
//   y[t][r] = sum_k W[r][k] n[t][k]                          n = x, or x gain / sqrt(mean(x^2) + eps)
//   y[t][r] = that + residual[t][r]                          when a residual is given
//   y[t][r] = act(sum of row 2 r) * (sum of row 2 r + 1)     when an activation is given: gate and up alternate
//
// Shapes: W (num_rows, k) in the planes of FORMAT (formats/parts.cuh), k a multiple of 32; x (tokens, x_stride)
// f32, 16-byte aligned rows; x_rows, where given, says which row of x token t reads.
//
// Mapping: 128 threads are 16 groups of 8 lanes. A group owns ROWS rows of W and the thread block's TOKENS
// tokens. In each pass a lane takes one block of 32 values of every row of its group, 256 values a group; x of the pass
// lies in shared memory, one pad of 16 bytes after each 32 values, so that 8 lanes read 16 bytes each without a
// conflict. Weights are loaded to registers before the barrier, unpacked once, and used for all tokens.
// Grid: (tiles of tokens, tiles of 16 * ROWS rows); thread blocks of the same rows are neighbours and share
// their weights in the cache.
//
// Order of summation, whatever TOKENS, ROWS and the number of tokens: a lane adds up its blocks in ascending k
// by fmaf, then a butterfly over 8 lanes. The norm's mean of squares: 64 columns of 4 values each in ascending
// k, a butterfly over 32, then two halves. Deterministic. So prompts and decodes give the same bits, and there is no
// second kernel for prompts.
//
// Minimum: compute capability 3.5 (__ldg). Reference: kernels/reference/matmul.py, within 1e-5 of the row's scale.
// Predicted speed: docs/kernels.md; nothing was measured on a K80.
#include "activations.cuh"
#include "budget.cuh"
#include "formats.cuh"
#include "sums.cuh"

#define THREADS 128
#define LANES 8
#define GROUPS (THREADS / LANES)
#define PASS_FLOAT4S (LANES * 8)
#define PADDED_FLOAT4S (LANES * 9)

struct Product {
    Planes weights;
    const float* x;
    const int* x_rows;
    const float* gain;
    const float* residual;
    float* y;
    int num_rows, k, num_tokens, x_stride, y_stride, activation;
    float eps;
};

// One pass of x, from value 256 * pass on, into shared memory; squares are added up for the norm. A thread
// always sees the same column of 4 values.
template <int TOKENS>
__device__ inline void stage(const Product& p, int first_token, int pass, float4 (*tile)[PADDED_FLOAT4S],
                             float* squares) {
    int column = threadIdx.x % PASS_FLOAT4S;
    int at = pass * PASS_FLOAT4S + column;
#pragma unroll
    for (int i = 0; i < (TOKENS + 1) / 2; i++) {
        int t = 2 * i + (int)threadIdx.x / PASS_FLOAT4S;
        if (t >= TOKENS) continue;
        int token = first_token + t;
        float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
        if (token < p.num_tokens && 4 * at < p.k) {
            size_t row = p.x_rows ? p.x_rows[token] : token;
            v = __ldg((const float4*)(p.x + row * p.x_stride) + at);
            if (p.gain) {
                float4 g = __ldg((const float4*)p.gain + at);
                squares[i] = fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, squares[i]))));
                v.x *= g.x, v.y *= g.y, v.z *= g.z, v.w *= g.w;
            }
        }
        tile[t][column + column / 8] = v;
    }
}

// 1 / sqrt(mean of squares + eps) of every token, into shared memory.
template <int TOKENS>
__device__ inline void invert_norms(const Product& p, const float* squares, float (*halves)[2],
                                    float* inverse) {
    int half = threadIdx.x % PASS_FLOAT4S / 32;
#pragma unroll
    for (int i = 0; i < (TOKENS + 1) / 2; i++) {
        int t = 2 * i + (int)threadIdx.x / PASS_FLOAT4S;
        float sum = lane_sum<32>(squares[i]);
        if (t < TOKENS && threadIdx.x % 32 == 0) halves[t][half] = sum;
    }
    __syncthreads();
    if (threadIdx.x < TOKENS) {
        float mean = (halves[threadIdx.x][0] + halves[threadIdx.x][1]) / (float)p.k;
        inverse[threadIdx.x] = 1.0f / sqrtf(mean + p.eps);
    }
    __syncthreads();
}

template <int ROWS, int TOKENS>
__device__ inline void multiply(const Product& p) {
    __shared__ float4 tile[TOKENS][PADDED_FLOAT4S];
    __shared__ float halves[TOKENS][2], inverse[TOKENS];
    int lane = threadIdx.x % LANES;
    int first_token = blockIdx.x * TOKENS;
    int first_row = (blockIdx.y * GROUPS + threadIdx.x / LANES) * ROWS;
    int num_blocks = p.k / 32;
    float squares[(TOKENS + 1) / 2] = {};
    float sums[ROWS][TOKENS] = {};

    for (int pass = 0; pass * LANES < num_blocks; pass++) {
        int block = pass * LANES + lane;
        FORMAT w[ROWS];
        if (block < num_blocks) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int row = min(first_row + r, p.num_rows - 1);
                w[r].load(p.weights, (size_t)row * num_blocks + block);
            }
        }
        __syncthreads();  // everybody is done with the pass before
        stage<TOKENS>(p, first_token, pass, tile, squares);
        __syncthreads();
        if (block < num_blocks) {
#pragma unroll(FORMAT::UNROLL)
            for (int j = 0; j < 8; j++) {
                float v[ROWS][4];
#pragma unroll
                for (int r = 0; r < ROWS; r++) w[r].four(j, v[r]);
#pragma unroll
                for (int t = 0; t < TOKENS; t++) {
                    float4 x = tile[t][lane * 9 + j];
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        sums[r][t] = fmaf(v[r][0], x.x, sums[r][t]);
                        sums[r][t] = fmaf(v[r][1], x.y, sums[r][t]);
                        sums[r][t] = fmaf(v[r][2], x.z, sums[r][t]);
                        sums[r][t] = fmaf(v[r][3], x.w, sums[r][t]);
                    }
                }
            }
        }
    }

    if (p.gain) invert_norms<TOKENS>(p, squares, halves, inverse);
    int first = scatter_sums(sums, lane);
    if (lane % (TOKENS < LANES ? LANES / TOKENS : 1)) return;  // another lane keeps the same sums
#pragma unroll
    for (int c = 0; c < (TOKENS > LANES ? TOKENS / LANES : 1); c++) {
        int token = first_token + first + c;
        if (token >= p.num_tokens) continue;
        float scale = p.gain ? inverse[first + c] : 1.0f;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            sums[r][c] *= scale;
            if (first_row + r >= p.num_rows) continue;
            size_t at = (size_t)token * p.y_stride + first_row + r;
            if (!p.activation) {
                p.y[at] = p.residual ? sums[r][c] + p.residual[at] : sums[r][c];
            } else if (r % 2) {
                float y = activated(p.activation, sums[r - 1][c]) * sums[r][c];
                p.y[(size_t)token * p.y_stride + (first_row + r) / 2] = y;
            }
        }
    }
}

#define ENTRY(name, ROWS, TOKENS, MIN_BLOCKS)                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS, LEAST_BLOCKS(MIN_BLOCKS))                         \
        name(const void* quants, const void* highs, const void* scales, const void* supers, const float* x, \
             const int* x_rows, const float* gain, const float* residual, float* y, int num_rows, int k,    \
             int num_tokens, int x_stride, int y_stride, int activation, float eps) {                       \
        Planes weights = {quants, highs, scales, supers};                                                   \
        Product p = {weights, x,          x_rows,   gain,     residual,   y,  num_rows,                     \
                     k,       num_tokens, x_stride, y_stride, activation, eps};                             \
        multiply<ROWS, TOKENS>(p);                                                                          \
    }

// Rows * tokens is bounded by registers: up to 64 sums, 16 unpacked values and the packed blocks of ROWS rows.
ENTRY(matmul_narrow, 2, 1, 16)  // one token, few rows: twice the warps
ENTRY(matmul_1, 4, 1, 8)
ENTRY(matmul_2, 4, 2, 8)
ENTRY(matmul_4, 4, 4, 6)
ENTRY(matmul_8, 4, 8, 4)
ENTRY(matmul_16, 4, 16, 4)  // prompts
