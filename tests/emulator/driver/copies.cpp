// Copies and fills, in stream order.
#include <cstring>

#include "state.h"

namespace emulated {

struct End {
    CUdeviceptr address;
    bool on_die;
};

static CUresult copy(End to, End from, size_t num_bytes, CUstream handle, bool waits, bool any_die = false) {
    TURN_WITH_CONTEXT(turn);
    Context& context = *turn.context;
    Stream* stream = find_stream(context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    for (End end : {to, from})
        if (end.on_die)
            if (CUresult error = check_range(context, end.address, num_bytes, any_die)) return error;
    bool is_pageable = false;
    for (End end : {to, from}) is_pageable |= !end.on_die && !is_page_locked(end.address);
    if (is_pageable && is_hung(context)) return stuck("a copy of memory that is not page-locked");
    if (is_to_fail(EMULATOR_COPY)) {
        context.fault = explain(CUDA_ERROR_LAUNCH_FAILED, "this copy was made to fail");
        return context.fault;
    }
    std::shared_ptr<std::string> snapshot;
    // The driver reads pageable memory at once; page-locked memory only when the copy's turn comes.
    if (!waits && !from.on_die && !is_page_locked(from.address))
        snapshot = std::make_shared<std::string>(reinterpret_cast<const char*>(from.address), num_bytes);
    CUresult error = submit(context, *stream, [=] {
        memmove(reinterpret_cast<void*>(to.address),
                snapshot ? snapshot->data() : reinterpret_cast<const void*>(from.address), num_bytes);
        return CUDA_SUCCESS;
    });
    if (error || !waits) return error;
    return waited("cuMemcpy", run_stream(*stream));
}

static End host(const void* address) { return {reinterpret_cast<CUdeviceptr>(address), false}; }
static End die(CUdeviceptr address) { return {address, true}; }

template <class T>
static CUresult fill(CUdeviceptr address, T value, size_t count, CUstream handle) {
    TURN_WITH_CONTEXT(turn);
    Stream* stream = find_stream(*turn.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult error = check_range(*turn.context, address, count * sizeof(T))) return error;
    return submit(*turn.context, *stream, [=] {
        std::fill_n(reinterpret_cast<T*>(address), count, value);
        return CUDA_SUCCESS;
    });
}

// A copy between contexts without a stream waits for all work of both.
static CUresult finish_both(CUcontext a, CUcontext b) {
    Turn turn;
    for (CUcontext handle : {a, b}) {
        Context* context = find_context(handle);
        if (!context) return CUDA_ERROR_INVALID_CONTEXT;
        if (CUresult error = run_context(*context)) return waited("cuMemcpyPeer", error);
    }
    return CUDA_SUCCESS;
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t n) {
    return copy(die(to), host(from), n, nullptr, true);
}
DRIVER_API cuMemcpyDtoH(void* to, CUdeviceptr from, size_t n) {
    return copy(host(to), die(from), n, nullptr, true);
}
DRIVER_API cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) {
    return copy(die(to), die(from), n, nullptr, false);
}
DRIVER_API cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t n, CUstream stream) {
    return copy(die(to), host(from), n, stream, false);
}
DRIVER_API cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t n, CUstream stream) {
    return copy(host(to), die(from), n, stream, false);
}
DRIVER_API cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    return copy(die(to), die(from), n, stream, false);
}
DRIVER_API cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                        size_t n) {
    if (CUresult error = finish_both(to_context, from_context)) return error;
    return copy(die(to), die(from), n, nullptr, true, true);
}
DRIVER_API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n,
                             CUstream stream) {
    return copy(die(to), die(from), n, stream, false, true);
}

DRIVER_API cuMemsetD8(CUdeviceptr to, unsigned char value, size_t n) { return fill(to, value, n, nullptr); }
DRIVER_API cuMemsetD16(CUdeviceptr to, unsigned short value, size_t n) { return fill(to, value, n, nullptr); }
DRIVER_API cuMemsetD32(CUdeviceptr to, unsigned value, size_t n) { return fill(to, value, n, nullptr); }
DRIVER_API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
    return fill(to, value, n, stream);
}
DRIVER_API cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream) {
    return fill(to, value, n, stream);
}
DRIVER_API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
    return fill(to, value, n, stream);
}
