// What the emulated driver hands to a kernel's host code for one launch. Both sides include this file.
#pragma once
#include <cstddef>

namespace emulated {

struct LaunchRecord {
    unsigned grid[3];
    unsigned block[3];
    unsigned dynamic_shared_bytes;
    bool reversed;          // last thread and last thread block first
    const char* arguments;  // packed as for cuLaunchKernel's parameter buffer
    size_t arguments_bytes;
    char* message;  // receives a fault in words
    size_t message_bytes;
};

// A kernel's host entry: emulated_launch_<kernel>. Returns one of these.
enum LaunchResult : int {
    LAUNCH_OK = 0,
    LAUNCH_WRONG_ARGUMENTS = 1,
    LAUNCH_MISALIGNED = 716,
    LAUNCH_FAULT = 719
};
using LaunchEntry = int (*)(const LaunchRecord*);

}  // namespace emulated
