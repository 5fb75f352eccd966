// Shared memory is thread-local memory of the kernel's library: block-scope `thread_local` is static, and
// `extern thread_local T name[]` is legal, so one word serves static and dynamic shared memory.
#pragma once
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace emulated {

constexpr unsigned DYNAMIC_SHARED_BYTES = 48 << 10;
constexpr unsigned OVERRUN_BYTES = 4096;  // how far past its end dynamic shared memory is watched

// The library's dynamic shared buffer, or null where no kernel has one; made by the host compiler.
extern "C" char* emulated_dynamic_shared();

struct SharedMemory {
    char* start;
    size_t size_bytes;
};

// This library's thread-local block of the calling thread.
static int find_shared_memory(dl_phdr_info* library, size_t, void* out) {
    auto here = reinterpret_cast<uintptr_t>(&find_shared_memory);
    bool ours = false;
    const ElfW(Phdr)* thread_local_part = nullptr;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) & part = library->dlpi_phdr[i];
        uintptr_t start = library->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && start <= here && here < start + part.p_memsz) ours = true;
        if (part.p_type == PT_TLS) thread_local_part = &part;
    }
    if (!ours) return 0;
    auto found = static_cast<SharedMemory*>(out);
    if (thread_local_part && library->dlpi_tls_data)
        *found = {static_cast<char*>(library->dlpi_tls_data), thread_local_part->p_memsz};
    return 1;
}

static thread_local char anchor;  // somewhere in the thread-local block of the calling thread

static SharedMemory shared_memory() {
    // Where the anchor lies in the block is the same for every thread.
    static const struct Place {
        size_t anchor_offset, size_bytes;
        Place() {
            char* here = const_cast<char*>(&anchor);
            SharedMemory found{here, sizeof anchor};
            dl_iterate_phdr(find_shared_memory, &found);
            anchor_offset = size_t(here - found.start);
            size_bytes = found.size_bytes;
        }
    } place;
    return {&anchor - place.anchor_offset, place.size_bytes};
}

// Fill with all ones (a NaN as a float): nothing may rely on what an earlier thread block left.
static void undefine_shared_memory(unsigned dynamic_bytes) {
    SharedMemory m = shared_memory();
    char* dynamic = emulated_dynamic_shared();
    if (!dynamic) {
        memset(m.start, 0xff, m.size_bytes);
        return;
    }
    size_t before = size_t(dynamic - m.start);
    size_t watched = std::min(dynamic_bytes + OVERRUN_BYTES, DYNAMIC_SHARED_BYTES);
    memset(m.start, 0xff, before + watched);
    memset(dynamic + DYNAMIC_SHARED_BYTES, 0xff, m.size_bytes - before - DYNAMIC_SHARED_BYTES);
}

static bool shared_memory_overrun(unsigned dynamic_bytes) {
    const char* dynamic = emulated_dynamic_shared();
    for (unsigned i = dynamic_bytes; dynamic && i < DYNAMIC_SHARED_BYTES && i < dynamic_bytes + OVERRUN_BYTES;
         i++)
        if (dynamic[i] != char(0xff)) return true;
    return false;
}

}  // namespace emulated
