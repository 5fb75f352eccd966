// A thread block on one host thread: its threads run as fibers until they wait for each other.
//
// Warps take turns. A thread waits at a barrier (for its block) or in a warp operation (for the lanes its
// mask names). What real hardware leaves undefined ends the launch with a message here: threads at
// different barriers, a mask that names a lane which does not come, a lane that its mask does not name.
#pragma once
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "fiber.h"
#include "launch_record.h"
#include "shared_memory.h"
#include "vector_types.h"

namespace emulated {

constexpr int WARP_LANES = 32;

enum class State { fresh, ready, at_barrier, in_warp_op, done };
enum class WarpOp { sync, shuffle_index, shuffle_up, shuffle_down, shuffle_xor, ballot };

struct Thread {
    State state;
    void* stack_pointer;
    char* stack;
    uint3 index;
    int line;  // of the source, where it waits
    WarpOp op;
    unsigned mask;
    int offset, width;
    uint64_t value, result;
};

struct Block {
    std::vector<Thread> threads;
    int size;
    Thread* current;
    void* scheduler;  // its stack pointer while a thread runs
    StackPool stacks;
    uint3 block_index;
    dim3 grid, block;
    bool reversed;
    unsigned dynamic_shared_bytes;
    void (*kernel)(const void*);
    const void* arguments;
    int fault;
    char message[400];
};

static Block block_state;

static void fault(int kind, const char* format, ...) {
    Block& b = block_state;
    if (b.fault) return;
    b.fault = kind;
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(b.message, sizeof b.message, format, arguments);
    va_end(arguments);
    if (used < 0 || used >= int(sizeof b.message)) return;
    snprintf(b.message + used, sizeof b.message - used, " (thread block %u,%u,%u)", b.block_index.x,
             b.block_index.y, b.block_index.z);
}

static __attribute__((noinline)) void leave(State state, int line) {
    Thread* me = block_state.current;
    me->state = state;
    me->line = line;
    emulated_exchange(&me->stack_pointer, block_state.scheduler);
}

static void begin_thread() {
    block_state.kernel(block_state.arguments);
    leave(State::done, 0);
    __builtin_trap();
}

// A fault of the running thread: it goes no further.
static __attribute__((noreturn)) void end_thread() {
    leave(State::done, 0);
    __builtin_trap();
}

static void run_thread(Thread& t, int number) {
    if (t.state == State::fresh) {
        t.stack = block_state.stacks.take();
        t.stack_pointer = fresh_stack(t.stack, unsigned(number), begin_thread);
    }
    block_state.current = &t;
    emulated_exchange(&block_state.scheduler, t.stack_pointer);
    if (t.state == State::done) block_state.stacks.give(t.stack);
}

static int source_lane(const Thread& t, int lane) {
    int first = lane & ~(t.width - 1), last = first + t.width - 1, source = lane;
    if (t.op == WarpOp::shuffle_index) source = first + (t.offset & (t.width - 1));
    if (t.op == WarpOp::shuffle_up && lane - t.offset >= first) source = lane - t.offset;
    if (t.op == WarpOp::shuffle_down && lane + t.offset <= last) source = lane + t.offset;
    if (t.op == WarpOp::shuffle_xor && (lane ^ t.offset) <= last) source = lane ^ t.offset;
    return source;
}

static void finish_warp_op(Thread* warp, int lanes, unsigned together) {
    unsigned ballot = 0;
    for (int lane = 0; lane < lanes; lane++)
        if (together >> lane & 1 && warp[lane].value) ballot |= 1u << lane;
    for (int lane = 0; lane < lanes; lane++) {
        Thread& t = warp[lane];
        if (!(together >> lane & 1)) continue;
        if (t.op == WarpOp::ballot) {
            t.result = ballot;
        } else if (t.op != WarpOp::sync) {
            int source = source_lane(t, lane);
            // A value from a lane that takes no part is undefined: all ones, a NaN as a float.
            t.result = source < lanes && (together >> source & 1) ? warp[source].value : ~0ull;
        }
        t.state = State::ready;
    }
}

// Let one complete group of waiting lanes go on. False if no group is complete.
static bool advance_warp(Thread* warp, int lanes) {
    for (int lead = 0; lead < lanes; lead++) {
        const Thread& leader = warp[lead];
        if (leader.state != State::in_warp_op) continue;
        unsigned together = 0;
        for (int lane = 0; lane < lanes; lane++) {
            const Thread& t = warp[lane];
            if (t.state == State::in_warp_op && t.line == leader.line && t.op == leader.op &&
                t.mask == leader.mask)
                together |= 1u << lane;
        }
        if (together == (lanes == WARP_LANES ? leader.mask : leader.mask & ((1u << lanes) - 1))) {
            finish_warp_op(warp, lanes, together);
            return true;
        }
        if (together & ~leader.mask) {
            fault(LAUNCH_FAULT,
                  "line %d: a lane takes part in a warp operation whose mask %#x does not name it",
                  leader.line, leader.mask);
            return false;
        }
    }
    return false;
}

// Run until every live thread of the warp waits for something outside the warp.
static void run_warp(int first, int last) {
    Thread* warp = &block_state.threads[first];
    int lanes = last - first;
    do {
        for (int i = 0; i < lanes; i++) {
            int lane = block_state.reversed ? lanes - 1 - i : i;
            State state = warp[lane].state;
            if (state == State::fresh || state == State::ready) run_thread(warp[lane], first + lane);
            if (block_state.fault) return;
        }
    } while (advance_warp(warp, lanes) && !block_state.fault);
}

static void pass_barrier() {
    int line = -1, waiting = 0;
    for (int i = 0; i < block_state.size; i++) {
        Thread& t = block_state.threads[i];
        if (t.state == State::in_warp_op) {
            fault(LAUNCH_FAULT, "line %d: thread %d waits for lanes (mask %#x) that do not come", t.line, i,
                  t.mask);
            return;
        }
        if (t.state != State::at_barrier) continue;
        if (waiting++ && t.line != line) {
            fault(LAUNCH_FAULT, "threads wait at different __syncthreads(), lines %d and %d", line, t.line);
            return;
        }
        line = t.line;
        t.state = State::ready;
    }
}

static void run_block() {
    Block& b = block_state;
    undefine_shared_memory(b.dynamic_shared_bytes);
    for (int i = 0; i < b.size; i++) {
        Thread& t = b.threads[i];
        t.state = State::fresh;
        t.index = {i % b.block.x, i / b.block.x % b.block.y, i / (b.block.x * b.block.y)};
    }
    int num_warps = (b.size + WARP_LANES - 1) / WARP_LANES;
    for (bool alive = true; alive && !b.fault;) {
        for (int i = 0; i < num_warps && !b.fault; i++) {
            int first = (b.reversed ? num_warps - 1 - i : i) * WARP_LANES;
            run_warp(first, std::min(first + WARP_LANES, b.size));
        }
        alive = std::any_of(b.threads.begin(), b.threads.begin() + b.size,
                            [](const Thread& t) { return t.state != State::done; });
        if (alive && !b.fault) pass_barrier();
    }
    for (int i = 0; b.fault && i < b.size; i++) {  // threads that a fault left behind
        State state = b.threads[i].state;
        if (state != State::fresh && state != State::done) b.stacks.give(b.threads[i].stack);
    }
    if (!b.fault && shared_memory_overrun(b.dynamic_shared_bytes))
        fault(LAUNCH_FAULT, "dynamic shared memory was written past its %u bytes", b.dynamic_shared_bytes);
}

static int run_grid(const LaunchRecord& launch, void (*kernel)(const void*), const void* arguments) {
    Block& b = block_state;
    b.grid = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
    b.block = dim3(launch.block[0], launch.block[1], launch.block[2]);
    b.size = int(b.block.x * b.block.y * b.block.z);
    b.reversed = launch.reversed;
    b.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    b.kernel = kernel;
    b.arguments = arguments;
    b.fault = LAUNCH_OK;
    if (int(b.threads.size()) < b.size) b.threads.resize(b.size);
    uint64_t num_blocks = uint64_t(b.grid.x) * b.grid.y * b.grid.z;
    for (uint64_t i = 0; i < num_blocks && !b.fault; i++) {
        uint64_t n = b.reversed ? num_blocks - 1 - i : i;
        b.block_index = {unsigned(n % b.grid.x), unsigned(n / b.grid.x % b.grid.y),
                         unsigned(n / (uint64_t(b.grid.x) * b.grid.y))};
        run_block();
    }
    if (b.fault) snprintf(launch.message, launch.message_bytes, "%s", b.message);
    return b.fault;
}

}  // namespace emulated
