// A kernel's arguments out of the packed parameter buffer, and the host entry of a kernel.
#pragma once
#include <tuple>
#include <utility>

#include "thread_block.h"

namespace emulated {

template <class T>
size_t aligned(size_t offset) {
    return (offset + alignof(T) - 1) & ~(alignof(T) - 1);
}

template <class... Arguments>
size_t packed_bytes() {
    size_t offset = 0;
    int in_order[] = {0, (offset = aligned<Arguments>(offset) + sizeof(Arguments), 0)...};
    (void)in_order;
    return offset;
}

template <class T>
T unpack(const char* buffer, size_t& offset) {
    offset = aligned<T>(offset);
    T value;
    memcpy(&value, buffer + offset, sizeof(T));
    offset += sizeof(T);
    return value;
}

template <class... Arguments>
struct Call {
    void (*kernel)(Arguments...);
    std::tuple<Arguments...> arguments;

    template <size_t... I>
    void apply(std::index_sequence<I...>) const {
        kernel(std::get<I>(arguments)...);
    }
    static void run(const void* call) {
        static_cast<const Call*>(call)->apply(std::index_sequence_for<Arguments...>());
    }
};

template <class... Arguments>
int launch(void (*kernel)(Arguments...), const LaunchRecord& record) {
    size_t wanted = packed_bytes<Arguments...>();
    if (record.arguments_bytes != wanted) {
        snprintf(record.message, record.message_bytes, "its arguments take %zu bytes; %zu were given", wanted,
                 record.arguments_bytes);
        return LAUNCH_WRONG_ARGUMENTS;
    }
    size_t offset = 0;
    (void)offset;
    // Braces evaluate from left to right.
    Call<Arguments...> call{kernel, std::tuple<Arguments...>{unpack<Arguments>(record.arguments, offset)...}};
    return run_grid(record, &Call<Arguments...>::run, &call);
}

}  // namespace emulated

#define EMULATED_ENTRY(name)                                                      \
    extern "C" __attribute__((visibility("default"))) int emulated_launch_##name( \
        const emulated::LaunchRecord* record) {                                   \
        return emulated::launch(name, *record);                                   \
    }
