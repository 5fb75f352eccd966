"""Where things are: columns of an op record and of the step header, and sizes all kernels agree on.

Owns no memory and knows no op. Both tables are arrays of int64 that kernels index by these names;
addresses are absolute, strides and sizes are in bytes unless a name says otherwise.
"""


def _columns(names):
    return {name: i for i, name in enumerate(names.split())}


# ---- one record per op ---------------------------------------------------------------------------

# fmt: off
OP = _columns("""KERNEL ROWS MEET W IN IN_STRIDE IN_SHARED OUT OUT_STRIDE OUT_SHARED K GROUPS
                 GROUP_BYTES MODE SCALE ADDEND ADDEND_STRIDE ADDEND_SHARED GATHER EPS QUANTISE
                 HEADS KV_HEADS HEAD_DIM KV WINDOW BIAS Q_GAIN K_GAIN
                 PAGE_ANGLES OFFSET_ANGLES NUM_PAIRS PLAN COUNTER PARTIALS CAPACITY
                 MAX_ROWS NUM_COUNTERS CLAIMED KV_TYPE""")
(KERNEL, ROWS, MEET, W, IN, IN_STRIDE, IN_SHARED, OUT, OUT_STRIDE, OUT_SHARED, K, GROUPS,
 GROUP_BYTES, MODE, SCALE, ADDEND, ADDEND_STRIDE, ADDEND_SHARED, GATHER, EPS, QUANTISE,
 HEADS, KV_HEADS, HEAD_DIM, KV, WINDOW, BIAS, Q_GAIN, K_GAIN,
 PAGE_ANGLES, OFFSET_ANGLES, NUM_PAIRS, PLAN, COUNTER, PARTIALS, CAPACITY,
 MAX_ROWS, NUM_COUNTERS, CLAIMED, KV_TYPE) = range(len(OP))
# fmt: on
OP_COLUMNS = 40  # five cache lines a record

# ---- one header per step -------------------------------------------------------------------------

# fmt: off
STEP = _columns("""S_ROWS S_LOGITS S_THREADS S_TOKENS S_POSITIONS S_SLOTS S_LOGIT_ROWS S_PAGES
                   S_MAX_PAGES S_BARRIER S_SCRATCH S_SCRATCH_BYTES S_SPINS S_STOP S_PROFILE
                   S_LONGEST_WAIT S_STEP_SPINS S_WAITED""")
(S_ROWS, S_LOGITS, S_THREADS, S_TOKENS, S_POSITIONS, S_SLOTS, S_LOGIT_ROWS, S_PAGES,
 S_MAX_PAGES, S_BARRIER, S_SCRATCH, S_SCRATCH_BYTES, S_SPINS, S_STOP, S_PROFILE,
 S_LONGEST_WAIT, S_STEP_SPINS, S_WAITED) = range(len(STEP))
# fmt: on

# MODE of a matmul: write, add to what is there, or act(gate) * up of interleaved gate and up groups.
STORE, ADD, GATED_SILU, GATED_GELU = 0, 1, 2, 3

PAGE = 32  # positions in a KV page
RUN = 8 * PAGE  # positions one attention task sums over; runs are combined in order
NARROW_ROWS = 8  # up to so many rows, every thread makes its own copy of a matmul's activations
TILE_ROWS = 16  # rows of one sequence that share a pass over its keys and values

# A quantised activation row of nb blocks of 32: int8 values, then per block
# scale f32 | scale * sum f32 | -sum i32 | -sums of its two halves 2 x i32
ACT_BLOCK = 52
ACT_D, ACT_S, ACT_NSUM, ACT_NSUM16 = 32, 36, 40, 44  # times nb: offsets in the row
