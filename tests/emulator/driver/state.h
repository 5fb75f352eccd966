// What the driver knows: dies, contexts, streams, events, allocations, modules. One lock guards it all;
// kernels run under it, so dies take turns and every run is the same.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "../kernel/launch_record.h"
#include "control.h"

#define DRIVER_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

namespace emulated {

// Handles are numbers that are never given twice, so a late release of something long gone can be told
// from a release of something new.
template <class T>
class Handles {
    std::unordered_map<uintptr_t, std::unique_ptr<T>> live_;
    uintptr_t next_ = 0x1000;

public:
    template <class Handle>
    Handle add(std::unique_ptr<T> object) {
        uintptr_t number = next_;
        next_ += 0x10;
        live_[number] = std::move(object);
        return reinterpret_cast<Handle>(number);
    }
    template <class Handle>
    T* find(Handle handle) const {
        auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
        return found == live_.end() ? nullptr : found->second.get();
    }
    template <class Handle>
    bool was_released(Handle handle) const {
        auto number = reinterpret_cast<uintptr_t>(handle);
        return number >= 0x1000 && number < next_ && !live_.count(number);
    }
    template <class Handle>
    void remove(Handle handle) {
        live_.erase(reinterpret_cast<uintptr_t>(handle));
    }
    template <class Predicate>
    void remove_if(Predicate predicate) {
        for (auto i = live_.begin(); i != live_.end();)
            i = predicate(*i->second) ? live_.erase(i) : std::next(i);
    }
    template <class Visit>
    void for_each(Visit visit) {
        for (auto& [number, object] : live_) visit(*object);
    }
    void clear() { live_.clear(); }
    size_t size() const { return live_.size(); }
};

using Operation = std::function<CUresult()>;

// What an operation returns that has not ended and never will; calls that do not wait never show it.
constexpr CUresult NEVER_ENDS = CUresult(9999);

struct Graph {
    std::vector<Operation> operations;
};

struct Context;
struct Stream {
    explicit Stream(Context* context, unsigned flags = 0) : context(context), flags(flags) {}

    Context* context;
    unsigned flags;
    std::deque<Operation> queue;
    uint64_t num_submitted = 0, num_finished = 0;
    bool is_held = false;  // its next operation never ends
    std::unique_ptr<Graph> capture;  // while its work is recorded instead of run
};

struct Event {
    CUstream stream = nullptr;
    CUcontext context = nullptr;  // of its making; it may end before a wait runs
    uint64_t target = 0;          // passed once its stream has finished this many operations
    bool recorded = false, passed = false;
    double passed_s = 0;
};

struct Context {
    CUcontext handle;
    int die;
    int references = 1;
    CUresult fault = CUDA_SUCCESS;  // once set, every call fails with it until the context is destroyed
    std::set<CUcontext> peers;
    std::vector<CUstream> streams;
    Stream default_stream{this};
};

enum class MemoryKind { die, host, registered_host, module_variable };

struct Allocation {
    size_t size_bytes;
    Context* context;
    MemoryKind kind;
};

struct Module {
    void* library;
    int file;
    Context* context;
    ~Module();
};

struct Function {
    Module* module;
    std::string name;
    LaunchEntry entry;
};

struct Emulator {
    std::recursive_mutex lock;
    EmulatorSettings settings;
    bool initialised = false;
    uint64_t counts[EMULATOR_NUM_KINDS] = {}, fail_at[EMULATOR_NUM_KINDS] = {},
             fail_until[EMULATOR_NUM_KINDS] = {};
    size_t used_bytes[EMULATOR_MAX_DIES] = {}, external_bytes[EMULATOR_MAX_DIES] = {};
    CUcontext primary[EMULATOR_MAX_DIES] = {};
    bool is_broken[EMULATOR_MAX_DIES] = {}, is_hung[EMULATOR_MAX_DIES] = {};
    uint64_t hang_at = 0;         // the launch that never ends, and its die with it
    uint64_t num_stuck_calls = 0;  // that would not have returned
    std::map<CUdeviceptr, Allocation> allocations;  // by first address
    size_t num_released_overrun = 0;  // released allocations that had been written past their end
    Handles<Context> contexts;
    Handles<Stream> streams;
    Handles<Event> events;
    Handles<Module> modules;
    Handles<Function> functions;
    Handles<Graph> graphs;
    std::map<int, std::string> last_words;  // per error code, about its last occurrence
};

Emulator& emulator();

// The calling thread's turn: holds the lock; `context` is the thread's own, null if `refused`.
struct Turn {
    std::lock_guard<std::recursive_mutex> lock;
    Context* context;
    CUresult refused;
    Turn();
};
#define TURN_WITH_CONTEXT(turn) \
    Turn turn;                  \
    if (turn.refused) return turn.refused
#define TURN_WITH_DIE(turn, die)                                    \
    Turn turn;                                                      \
    if (!emulator().initialised) return CUDA_ERROR_NOT_INITIALIZED; \
    if ((die) < 0 || (die) >= int(emulator().settings.num_dies)) return CUDA_ERROR_INVALID_DEVICE

// faults.cpp
CUresult explain(CUresult error, const char* format, ...) __attribute__((format(printf, 2, 3)));
bool is_sticky(CUresult error);
bool is_to_fail(int kind);  // counts one, and says whether it is the one to fail
// A real driver would not return from this call, which a test wants to know rather than to wait for.
CUresult stuck(const char* call);
CUresult waited(const char* call, CUresult result);  // `result` of work that the call waited for

// devices.cpp
bool are_peers(int a, int b);

// contexts.cpp
Context* find_context(CUcontext handle);
void destroy_context(CUcontext handle);
bool is_hung(const Context& context);
bool is_held(Context& context);  // it hangs, or waits for one that does

// memory.cpp
std::map<CUdeviceptr, Allocation>::iterator find_allocation(CUdeviceptr address);
CUresult check_range(const Context& context, CUdeviceptr address, size_t num_bytes, bool any_die = false);
bool is_page_locked(CUdeviceptr address);
void release_allocations(const Context* owner);
void begin_run_of_addresses();  // earlier addresses belong to a state that was reset
size_t num_written_past_end();  // allocations, since the last reset, whose slack bytes have changed

// streams.cpp
Stream* find_stream(Context& context, CUstream handle);
CUresult submit(Context& context, Stream& stream, Operation operation);
CUresult run_stream(Stream& stream, uint64_t until = UINT64_MAX);
CUresult run_context(Context& context, bool blocking_streams_only = false);

double now_s();

}  // namespace emulated
