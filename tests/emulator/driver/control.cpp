// The functions tests set the driver up with; see control.h and emulated_driver.py.
#include <cstring>

#include "state.h"

using namespace emulated;

#define CONTROL extern "C" __attribute__((visibility("default")))
using Lock = std::lock_guard<std::recursive_mutex>;

// A machine just started. What is left of the one before is gone; its handles are dead.
CONTROL void emulator_reset(const EmulatorSettings* settings) {
    Lock lock(emulator().lock);
    Emulator& e = emulator();
    e.functions.clear();
    e.graphs.clear();
    e.modules.clear();
    std::vector<const Context*> owners;
    for (auto& [address, allocation] : e.allocations) owners.push_back(allocation.context);
    for (const Context* owner : owners) release_allocations(owner);
    e.allocations.clear();
    e.events.clear();
    e.streams.clear();
    e.contexts.clear();
    begin_run_of_addresses();
    e.num_released_overrun = 0;
    memset(e.counts, 0, sizeof e.counts);
    memset(e.fail_at, 0, sizeof e.fail_at);
    memset(e.fail_until, 0, sizeof e.fail_until);
    memset(e.used_bytes, 0, sizeof e.used_bytes);
    memset(e.external_bytes, 0, sizeof e.external_bytes);
    memset(e.primary, 0, sizeof e.primary);
    memset(e.is_broken, 0, sizeof e.is_broken);
    memset(e.is_hung, 0, sizeof e.is_hung);
    e.hang_at = e.num_stuck_calls = 0;
    e.last_words.clear();
    e.settings = *settings;
}

// Let the nth operation of this kind from now fail, so many in a row; 0: none.
CONTROL void emulator_fail(int kind, uint64_t nth, uint64_t times) {
    Emulator& e = emulator();
    Lock lock(e.lock);
    e.fail_at[kind] = e.counts[kind] + nth;
    e.fail_until[kind] = nth ? e.fail_at[kind] + times : 0;
}

CONTROL uint64_t emulator_count(int kind) {
    Lock lock(emulator().lock);
    return emulator().counts[kind];
}

CONTROL uint64_t emulator_used_bytes(int die) {
    Lock lock(emulator().lock);
    return emulator().used_bytes[die];
}

CONTROL void emulator_set_external_bytes(int die, uint64_t num_bytes) {
    Lock lock(emulator().lock);
    emulator().external_bytes[die] = num_bytes;
}

// A die that went bad: its contexts fail from now on, and new ones cannot be made.
CONTROL void emulator_break(int die) {
    Lock lock(emulator().lock);
    emulator().is_broken[die] = true;
    emulator().contexts.for_each([=](Context& context) {
        if (context.die == die) context.fault = CUDA_ERROR_ECC_UNCORRECTABLE;
    });
}

// From now on nothing that the die is given ever ends.
CONTROL void emulator_hang(int die) {
    Lock lock(emulator().lock);
    emulator().is_hung[die] = true;
}

// Let the nth launch from now never end, and hang its die; 0: none.
CONTROL void emulator_hang_at_launch(uint64_t nth) {
    Emulator& e = emulator();
    Lock lock(e.lock);
    e.hang_at = nth ? e.counts[EMULATOR_LAUNCH] + nth : 0;
}

CONTROL uint64_t emulator_is_hung(int die) {
    Lock lock(emulator().lock);
    return emulator().is_hung[die];
}

CONTROL uint64_t emulator_num_stuck_calls() {
    Lock lock(emulator().lock);
    return emulator().num_stuck_calls;
}

// Those that could be destroyed: one that hangs, or was found to wait for one that does, cannot.
CONTROL uint64_t emulator_num_contexts() {
    Emulator& e = emulator();
    Lock lock(e.lock);
    std::set<const Context*> held;
    e.streams.for_each([&](const Stream& stream) {
        if (stream.is_held) held.insert(stream.context);
    });
    uint64_t count = 0;
    e.contexts.for_each([&](const Context& context) { count += !is_hung(context) && !held.count(&context); });
    return count;
}

CONTROL uint64_t emulator_num_written_past_end() {
    Lock lock(emulator().lock);
    return num_written_past_end();
}
