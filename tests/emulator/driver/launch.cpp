// Launches: the checks a driver makes, then the kernel's host code, with its faults turned into errors.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>

#include "state.h"

namespace emulated {

constexpr unsigned MAX_THREADS = 1024, MAX_DEPTH = 64, MAX_GRID_YZ = 65535, MAX_SHARED_BYTES = 48 << 10;

// ---- signals: memory that is not there, and divisions by zero ------------------------------------------

static sigjmp_buf before_kernel;
static const void* fault_address;
static thread_local bool runs_a_kernel = false;

static void on_signal(int number, siginfo_t* info, void*) {
    if (!runs_a_kernel) {  // somebody else's fault, in another thread: let it end the process as it would
        signal(number, SIG_DFL);
        return;
    }
    fault_address = info->si_addr;
    siglongjmp(before_kernel, number);
}

class SignalGuard {
    static constexpr int NUMBERS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction before_[4];

public:
    SignalGuard() {
        // A stack of its own: the fault may be that a thread has used up the one it runs on.
        static thread_local char* stack = nullptr;
        constexpr size_t size = 64 << 10;
        if (!stack) {
            stack = new char[size];
            stack_t signal_stack = {};
            signal_stack.ss_sp = stack;
            signal_stack.ss_size = size;
            sigaltstack(&signal_stack, nullptr);
        }
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        for (int i = 0; i < 4; i++) sigaction(NUMBERS[i], &action, &before_[i]);
        runs_a_kernel = true;
    }
    ~SignalGuard() {
        runs_a_kernel = false;
        for (int i = 0; i < 4; i++) sigaction(NUMBERS[i], &before_[i], nullptr);
    }
};

static CUresult run_kernel(const Function& function, LaunchRecord record, const std::string& arguments) {
    char message[512] = "";
    record.arguments = arguments.data();
    record.arguments_bytes = arguments.size();
    record.message = message;
    record.message_bytes = sizeof message;
    const char* name = function.name.c_str();
    SignalGuard guard;
    int number = sigsetjmp(before_kernel, 1);
    if (number == SIGSEGV || number == SIGBUS)
        return explain(CUDA_ERROR_ILLEGAL_ADDRESS, "kernel %s touched %p", name, fault_address);
    if (number == SIGFPE)
        return explain(CUDA_ERROR_LAUNCH_FAILED, "kernel %s divided an integer by zero", name);
    if (number) return explain(CUDA_ERROR_LAUNCH_FAILED, "kernel %s came to a trap", name);
    int result = function.entry(&record);
    if (result == LAUNCH_OK) return CUDA_SUCCESS;
    return explain(CUresult(result), "kernel %s: %s", name, message);
}

// ---- checks before it -------------------------------------------------------------------------------------

// Kernels take addresses at multiples of 8 bytes: none of them may be another die's memory. A number that
// only looks like such an address is taken for one; it would be a strange one.
static CUresult check_arguments(const Context& context, const std::string& arguments) {
    for (size_t offset = 0; offset + sizeof(CUdeviceptr) <= arguments.size(); offset += sizeof(CUdeviceptr)) {
        CUdeviceptr address;
        memcpy(&address, arguments.data() + offset, sizeof address);
        auto found = find_allocation(address);
        if (found == emulator().allocations.end() || found->second.kind != MemoryKind::die) continue;
        if (CUresult error = check_range(context, address, 1))
            return explain(CUDA_ERROR_ILLEGAL_ADDRESS, "%s", emulator().last_words[error].c_str());
    }
    return CUDA_SUCCESS;
}

static std::string packed_arguments(void** extra) {
    const char* start = nullptr;
    size_t num_bytes = 0;
    for (void** e = extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
        if (e[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) start = static_cast<const char*>(e[1]);
        if (e[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) num_bytes = *static_cast<size_t*>(e[1]);
    }
    return std::string(start, num_bytes);
}

static bool is_launchable(const LaunchRecord& r) {
    const unsigned *g = r.grid, *b = r.block;
    return g[0] && g[1] && g[2] && b[0] && b[1] && b[2] && g[1] <= MAX_GRID_YZ && g[2] <= MAX_GRID_YZ &&
           b[0] <= MAX_THREADS && b[1] <= MAX_THREADS && b[2] <= MAX_DEPTH &&
           uint64_t(b[0]) * b[1] * b[2] <= MAX_THREADS && r.dynamic_shared_bytes <= MAX_SHARED_BYTES;
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                          CUstream stream_handle, void** parameters, void** extra) {
    TURN_WITH_CONTEXT(turn);
    Context& context = *turn.context;
    Function* function = emulator().functions.find(handle);
    Stream* stream = find_stream(context, stream_handle);
    if (!function || !stream) return CUDA_ERROR_INVALID_HANDLE;
    if (function->module->context->die != context.die)
        return explain(CUDA_ERROR_INVALID_HANDLE, "kernel %s was loaded on die %d and launched on die %d",
                       function->name.c_str(), function->module->context->die, context.die);
    if (parameters) return explain(CUDA_ERROR_NOT_SUPPORTED, "arguments come packed, as pycuda gives them");
    LaunchRecord record = {};
    record.grid[0] = grid_x, record.grid[1] = grid_y, record.grid[2] = grid_z;
    record.block[0] = block_x, record.block[1] = block_y, record.block[2] = block_z;
    record.dynamic_shared_bytes = shared_bytes;
    record.reversed = emulator().settings.is_reversed;
    if (!is_launchable(record))
        return explain(
            CUDA_ERROR_INVALID_VALUE, "kernel %s: grid %u,%u,%u of %u,%u,%u threads with %u shared bytes",
            function->name.c_str(), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes);
    std::string arguments = packed_arguments(extra);
    if (CUresult error = check_arguments(context, arguments)) return context.fault = error;
    // Counted as it runs: a launch in a graph is one whenever the graph is launched, none as it is recorded.
    return submit(context, *stream, [function = *function, record, arguments, die = context.die] {
        if (is_to_fail(EMULATOR_LAUNCH))
            return explain(CUDA_ERROR_LAUNCH_FAILED, "this launch of %s was made to fail",
                           function.name.c_str());
        Emulator& e = emulator();
        if (e.counts[EMULATOR_LAUNCH] == e.hang_at) {
            e.is_hung[die] = true;
            return NEVER_ENDS;
        }
        return run_kernel(function, record, arguments);
    });
}

DRIVER_API cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
    // The real ones are in the cubin; see tests/kernels/cuda/test_budgets.py.
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? int(MAX_THREADS) : 0;
    return CUDA_SUCCESS;
}

// pycuda's prepared calls still set the block's shape this way before they launch with one.
DRIVER_API cuFuncSetBlockShape(CUfunction, int, int, int) { return CUDA_SUCCESS; }
DRIVER_API cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
DRIVER_API cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
