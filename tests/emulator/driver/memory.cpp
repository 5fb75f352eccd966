// Memory: every allocation lies between unreadable pages, starts undefined, and is watched past its end.
//
// Addresses come from one reserved range and are never given twice: whoever uses memory after its release
// faults, and a late release of something long gone releases nothing else.
#include <sys/mman.h>

#include <cstring>

#include "state.h"

namespace emulated {

constexpr size_t PAGE_BYTES = 4096;
constexpr size_t ALIGNMENT = 256;      // as cuMemAlloc promises
constexpr size_t GRANULE_BYTES = 512;  // what an allocation is charged in
constexpr size_t RESERVED_BYTES = 1ull << 43;
constexpr int UNDEFINED = 0xff;  // a NaN as a float, -1 as an integer

static size_t rounded(size_t num_bytes, size_t unit) { return (num_bytes + unit - 1) / unit * unit; }
static size_t charged(size_t num_bytes) { return rounded(num_bytes, GRANULE_BYTES); }

static char *next = nullptr, *end = nullptr;  // what is left of the reserved range
static char* first_of_run = nullptr;          // addresses below are of before the last reset

static char* map_pages(size_t num_bytes) {
    if (!next) {
        void* range =
            mmap(nullptr, RESERVED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) return nullptr;
        next = static_cast<char*>(range);
        end = next + RESERVED_BYTES;
    }
    size_t with_guard = num_bytes + PAGE_BYTES;
    if (size_t(end - next) < with_guard || mprotect(next, num_bytes, PROT_READ | PROT_WRITE)) return nullptr;
    char* pages = next;
    next += with_guard;
    return pages;
}

static char* pages_of(CUdeviceptr address) {
    return reinterpret_cast<char*>(address / PAGE_BYTES * PAGE_BYTES);
}
static size_t page_bytes(size_t size_bytes) { return rounded(rounded(size_bytes, ALIGNMENT), PAGE_BYTES); }

static CUresult allocate(CUdeviceptr* out, size_t num_bytes, Context& context, MemoryKind kind) {
    Emulator& e = emulator();
    if (!num_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (is_hung(context)) return stuck(kind == MemoryKind::die ? "cuMemAlloc" : "cuMemHostAlloc");
    if (is_to_fail(EMULATOR_ALLOCATION)) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t taken = e.used_bytes[context.die] + e.external_bytes[context.die];
    if (kind == MemoryKind::die &&
        (num_bytes > e.settings.memory_bytes || taken + charged(num_bytes) > e.settings.memory_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    char* pages = map_pages(page_bytes(num_bytes));
    if (!pages) return CUDA_ERROR_OUT_OF_MEMORY;
    // The end lies as close to the unreadable page as the alignment allows.
    char* start = pages + page_bytes(num_bytes) - rounded(num_bytes, ALIGNMENT);
    size_t slack = rounded(num_bytes, ALIGNMENT) - num_bytes;
    bool poison = kind == MemoryKind::die && e.settings.poisons;
    memset(poison ? start : start + num_bytes, UNDEFINED, slack + (poison ? num_bytes : 0));
    if (kind == MemoryKind::die) e.used_bytes[context.die] += charged(num_bytes);
    *out = reinterpret_cast<CUdeviceptr>(start);
    e.allocations[*out] = {num_bytes, &context, kind};
    return CUDA_SUCCESS;
}

static bool slack_is_intact(CUdeviceptr address, const Allocation& a) {
    if (a.kind != MemoryKind::die && a.kind != MemoryKind::host) return true;
    auto byte = reinterpret_cast<const unsigned char*>(address);
    for (size_t i = a.size_bytes; i < rounded(a.size_bytes, ALIGNMENT); i++)
        if (byte[i] != UNDEFINED) return false;
    return true;
}

static void unmap(CUdeviceptr address, const Allocation& a) {
    if (!slack_is_intact(address, a)) emulator().num_released_overrun++;
    if (a.kind == MemoryKind::die) emulator().used_bytes[a.context->die] -= charged(a.size_bytes);
    if (a.kind != MemoryKind::die && a.kind != MemoryKind::host) return;
    // The address stays reserved, so that a use after this faults.
    mmap(pages_of(address), page_bytes(a.size_bytes), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static CUresult release(CUdeviceptr address, MemoryKind kind) {
    Emulator& e = emulator();
    auto found = e.allocations.find(address);
    if (found == e.allocations.end())
        return address && address < reinterpret_cast<CUdeviceptr>(first_of_run) ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
    if (found->second.kind != kind) return CUDA_ERROR_INVALID_VALUE;
    unmap(address, found->second);
    e.allocations.erase(found);
    return CUDA_SUCCESS;
}

std::map<CUdeviceptr, Allocation>::iterator find_allocation(CUdeviceptr address) {
    auto& all = emulator().allocations;
    auto found = all.upper_bound(address);
    if (found == all.begin()) return all.end();
    --found;
    return address < found->first + found->second.size_bytes ? found : all.end();
}

bool is_page_locked(CUdeviceptr address) {
    auto found = find_allocation(address);
    return found != emulator().allocations.end() && found->second.kind != MemoryKind::die;
}

CUresult check_range(const Context& context, CUdeviceptr address, size_t num_bytes, bool any_die) {
    if (!num_bytes) return CUDA_SUCCESS;
    auto found = find_allocation(address);
    if (found == emulator().allocations.end() ||
        address + num_bytes > found->first + found->second.size_bytes)
        return explain(CUDA_ERROR_INVALID_VALUE, "%zu bytes at %#llx lie in no allocation", num_bytes,
                       address);
    const Allocation& a = found->second;
    bool own =
        a.kind == MemoryKind::host || a.kind == MemoryKind::registered_host || a.context->die == context.die;
    if (any_die || own || context.peers.count(a.context->handle)) return CUDA_SUCCESS;
    return explain(CUDA_ERROR_INVALID_VALUE, "memory of die %d is used on die %d without peer access",
                   a.context->die, context.die);
}

void release_allocations(const Context* owner) {
    auto& all = emulator().allocations;
    for (auto i = all.begin(); i != all.end();) {
        if (i->second.context != owner) {
            ++i;
            continue;
        }
        unmap(i->first, i->second);
        i = all.erase(i);
    }
}

void begin_run_of_addresses() { first_of_run = next; }

size_t num_written_past_end() {
    size_t count = emulator().num_released_overrun;
    for (auto& [address, allocation] : emulator().allocations) count += !slack_is_intact(address, allocation);
    return count;
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuMemGetInfo(size_t* free, size_t* total) {
    TURN_WITH_CONTEXT(turn);
    Emulator& e = emulator();
    *total = e.settings.memory_bytes;
    size_t taken = e.used_bytes[turn.context->die] + e.external_bytes[turn.context->die];
    *free = taken < *total ? *total - taken : 0;
    return CUDA_SUCCESS;
}

DRIVER_API cuMemAlloc(CUdeviceptr* out, size_t num_bytes) {
    TURN_WITH_CONTEXT(turn);
    return allocate(out, num_bytes, *turn.context, MemoryKind::die);
}

DRIVER_API cuMemFree(CUdeviceptr address) {
    Turn turn;
    if (turn.context && turn.context->fault) return turn.context->fault;
    if (turn.context && is_held(*turn.context)) return stuck("cuMemFree");  // it waits for what is running
    return release(address, MemoryKind::die);
}

DRIVER_API cuMemHostAlloc(void** out, size_t num_bytes, unsigned) {
    TURN_WITH_CONTEXT(turn);
    return allocate(reinterpret_cast<CUdeviceptr*>(out), num_bytes, *turn.context, MemoryKind::host);
}

DRIVER_API cuMemFreeHost(void* address) {
    Turn turn;
    if (turn.context && turn.context->fault) return turn.context->fault;
    if (turn.context && is_held(*turn.context)) return stuck("cuMemFreeHost");
    return release(reinterpret_cast<CUdeviceptr>(address), MemoryKind::host);
}

DRIVER_API cuMemHostGetDevicePointer(CUdeviceptr* out, void* address, unsigned) {
    *out = reinterpret_cast<CUdeviceptr>(address);
    return CUDA_SUCCESS;
}

DRIVER_API cuMemHostGetFlags(unsigned* flags, void*) {
    *flags = 0;
    return CUDA_SUCCESS;
}

DRIVER_API cuMemHostRegister(void* address, size_t num_bytes, unsigned) {
    TURN_WITH_CONTEXT(turn);
    emulator().allocations[reinterpret_cast<CUdeviceptr>(address)] = {num_bytes, turn.context,
                                                                      MemoryKind::registered_host};
    return CUDA_SUCCESS;
}

DRIVER_API cuMemHostUnregister(void* address) {
    Turn turn;
    emulator().allocations.erase(reinterpret_cast<CUdeviceptr>(address));
    return CUDA_SUCCESS;
}

DRIVER_API cuMemGetAddressRange(CUdeviceptr* start, size_t* size_bytes, CUdeviceptr address) {
    TURN_WITH_CONTEXT(turn);
    auto found = find_allocation(address);
    if (found == emulator().allocations.end()) return CUDA_ERROR_NOT_FOUND;
    if (start) *start = found->first;
    if (size_bytes) *size_bytes = found->second.size_bytes;
    return CUDA_SUCCESS;
}
