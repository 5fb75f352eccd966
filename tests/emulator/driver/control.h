// How tests set the driver up: functions beside CUDA's own, called through ctypes (emulated_driver.py).
#pragma once
#include <cstdint>

enum { EMULATOR_MAX_DIES = 64 };
// What can be made to fail: page-locked host memory counts as an allocation, too.
enum EmulatorKind { EMULATOR_ALLOCATION, EMULATOR_LAUNCH, EMULATOR_COPY, EMULATOR_NUM_KINDS };

struct EmulatorSettings {
    uint32_t num_dies;
    uint32_t is_lazy;                  // nothing runs before something waits for it
    uint32_t is_reversed;              // last thread and last thread block first
    uint32_t poisons;                  // memory of dies starts as all ones instead of zeros
    uint32_t has_peers;                // the dies of a card reach each other's memory
    uint64_t memory_bytes;             // of each die
    uint64_t context_bytes;            // of its die's memory, taken by every context
    uint8_t cards[EMULATOR_MAX_DIES];  // the card of each die; dies of a card have neighbouring PCI buses
};
