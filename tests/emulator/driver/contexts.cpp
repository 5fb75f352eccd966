// Contexts: each thread's stack of them, their life, and peer access between them.
#include "state.h"

namespace emulated {

static thread_local std::vector<CUcontext> current_stack;

Turn::Turn() : lock(emulator().lock), context(nullptr), refused(CUDA_SUCCESS) {
    if (!emulator().initialised) {
        refused = CUDA_ERROR_NOT_INITIALIZED;
    } else if (current_stack.empty()) {
        refused = CUDA_ERROR_INVALID_CONTEXT;
    } else {
        context = emulator().contexts.find(current_stack.back());
        refused = context ? context->fault : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
}

Context* find_context(CUcontext handle) { return emulator().contexts.find(handle); }

// Contexts of a K80 take turns between kernels, so one that never ends keeps all of them waiting.
bool is_hung(const Context& context) { return emulator().is_hung[context.die]; }

bool is_held(Context& context) {
    return !context.fault && (is_hung(context) || run_context(context) == NEVER_ENDS);
}

static CUresult new_context(CUcontext* out, int die) {
    Emulator& e = emulator();
    if (e.is_broken[die]) return CUDA_ERROR_ECC_UNCORRECTABLE;
    if (e.is_hung[die]) return stuck("cuCtxCreate");
    size_t taken = e.used_bytes[die] + e.external_bytes[die];
    if (taken + e.settings.context_bytes > e.settings.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    e.used_bytes[die] += e.settings.context_bytes;
    auto made = std::make_unique<Context>();
    Context* context = made.get();
    context->die = die;
    *out = context->handle = e.contexts.add<CUcontext>(std::move(made));
    return CUDA_SUCCESS;
}

// Destroying a context gives back all it held, also what its owner forgot, also after a fault.
void destroy_context(CUcontext handle) {
    Emulator& e = emulator();
    Context* context = e.contexts.find(handle);
    if (!context) return;
    run_context(*context);
    e.functions.remove_if([=](const Function& f) { return f.module->context == context; });
    e.modules.remove_if([=](const Module& m) { return m.context == context; });
    release_allocations(context);
    e.events.remove_if([=](const Event& v) { return v.context == handle; });
    e.streams.remove_if([=](const Stream& s) { return s.context == context; });
    e.used_bytes[context->die] -= e.settings.context_bytes;
    if (e.primary[context->die] == handle) e.primary[context->die] = nullptr;
    e.contexts.remove(handle);
}

static void take_off_stack(CUcontext handle) {
    if (!current_stack.empty() && current_stack.back() == handle) current_stack.pop_back();
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuCtxCreate(CUcontext* out, unsigned, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    if (CUresult error = new_context(out, die)) return error;
    current_stack.push_back(*out);
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxDestroy(CUcontext handle) {
    Turn turn;
    take_off_stack(handle);
    if (!find_context(handle))
        return emulator().contexts.was_released(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (is_held(*find_context(handle))) return stuck("cuCtxDestroy");
    destroy_context(handle);
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxAttach(CUcontext* out, unsigned) {
    TURN_WITH_CONTEXT(turn);
    turn.context->references++;
    *out = turn.context->handle;
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxDetach(CUcontext handle) {
    Turn turn;
    Context* context = find_context(handle);
    if (context && --context->references > 0) return CUDA_SUCCESS;
    return cuCtxDestroy(handle);
}

DRIVER_API cuCtxPushCurrent(CUcontext handle) {
    Turn turn;
    // pycuda keeps a stack of its own and may come back to a context that has been reset: calls then fail.
    if (!find_context(handle) && !emulator().contexts.was_released(handle)) return CUDA_ERROR_INVALID_CONTEXT;
    current_stack.push_back(handle);
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxPopCurrent(CUcontext* out) {
    if (current_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out) *out = current_stack.back();
    current_stack.pop_back();
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxGetCurrent(CUcontext* out) {
    *out = current_stack.empty() ? nullptr : current_stack.back();
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxSetCurrent(CUcontext handle) {
    if (!current_stack.empty()) current_stack.pop_back();
    if (handle) current_stack.push_back(handle);
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxGetDevice(CUdevice* die) {
    TURN_WITH_CONTEXT(turn);
    *die = turn.context->die;
    return CUDA_SUCCESS;
}

DRIVER_API cuCtxSynchronize() {
    TURN_WITH_CONTEXT(turn);
    return waited("cuCtxSynchronize", run_context(*turn.context));
}

DRIVER_API cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    CUcontext& primary = emulator().primary[die];
    if (primary) {
        find_context(primary)->references++;
    } else if (CUresult error = new_context(&primary, die)) {
        return error;
    }
    *out = primary;
    return CUDA_SUCCESS;
}

DRIVER_API cuDevicePrimaryCtxRelease(CUdevice die) {
    TURN_WITH_DIE(turn, die);
    CUcontext primary = emulator().primary[die];
    return primary ? cuCtxDetach(primary) : CUDA_ERROR_INVALID_CONTEXT;
}

DRIVER_API cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
    TURN_WITH_CONTEXT(turn);
    Context* other = find_context(peer);
    if (!other) return CUDA_ERROR_INVALID_CONTEXT;
    if (!are_peers(turn.context->die, other->die)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return turn.context->peers.insert(peer).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

DRIVER_API cuCtxDisablePeerAccess(CUcontext peer) {
    TURN_WITH_CONTEXT(turn);
    return turn.context->peers.erase(peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

// Knobs that change nothing here.
DRIVER_API cuCtxGetApiVersion(CUcontext, unsigned* version) {
    *version = 3020;
    return CUDA_SUCCESS;
}
DRIVER_API cuCtxGetLimit(size_t* value, CUlimit) {
    *value = 8 << 20;
    return CUDA_SUCCESS;
}
DRIVER_API cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }
DRIVER_API cuCtxGetCacheConfig(CUfunc_cache* config) {
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}
DRIVER_API cuCtxSetCacheConfig(CUfunc_cache) { return CUDA_SUCCESS; }
DRIVER_API cuCtxGetSharedMemConfig(CUsharedconfig* config) {
    *config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
    return CUDA_SUCCESS;
}
DRIVER_API cuCtxSetSharedMemConfig(CUsharedconfig) { return CUDA_SUCCESS; }
