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

CONTROL uint64_t emulator_num_contexts() {
    Lock lock(emulator().lock);
    return emulator().contexts.size();
}

CONTROL uint64_t emulator_num_written_past_end() {
    Lock lock(emulator().lock);
    return num_written_past_end();
}
