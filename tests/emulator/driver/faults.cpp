// Errors in words, failures on demand, and the one emulator.
#include <cstdarg>
#include <cstdio>

#include "state.h"

namespace emulated {

Emulator& emulator() {
    // Never destroyed: pycuda's own objects may outlive every static of this library.
    static Emulator* the = [] {
        auto made = new Emulator;
        made->settings = {2, 0, 0, 0, 1, 11441ull << 20, 0, {}};
        for (int die = 0; die < EMULATOR_MAX_DIES; die++) made->settings.cards[die] = uint8_t(die / 2);
        return made;
    }();
    return *the;
}

CUresult explain(CUresult error, const char* format, ...) {
    char words[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    emulator().last_words[error] = words;
    return error;
}

bool is_sticky(CUresult error) {
    return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_MISALIGNED_ADDRESS ||
           error == CUDA_ERROR_LAUNCH_FAILED;
}

bool is_to_fail(int kind) {
    Emulator& e = emulator();
    uint64_t count = ++e.counts[kind];
    return e.fail_at[kind] <= count && count < e.fail_until[kind];
}

CUresult stuck(const char* call) {
    emulator().num_stuck_calls++;
    fprintf(stderr, "emulated driver: %s would never return, as a die hangs\n", call);
    return explain(CUDA_ERROR_LAUNCH_TIMEOUT, "%s would never return, as a die hangs", call);
}

CUresult waited(const char* call, CUresult result) { return result == NEVER_ENDS ? stuck(call) : result; }

static const char* plain_words(CUresult error) {
    switch (error) {
        case CUDA_SUCCESS: return "no error";
        case CUDA_ERROR_INVALID_VALUE: return "invalid argument";
        case CUDA_ERROR_OUT_OF_MEMORY: return "out of memory";
        case CUDA_ERROR_NOT_INITIALIZED: return "initialization error";
        case CUDA_ERROR_NO_DEVICE: return "no CUDA-capable device is detected";
        case CUDA_ERROR_INVALID_DEVICE: return "invalid device ordinal";
        case CUDA_ERROR_INVALID_IMAGE: return "device kernel image is invalid";
        case CUDA_ERROR_INVALID_CONTEXT: return "invalid device context";
        case CUDA_ERROR_NO_BINARY_FOR_GPU: return "no kernel image is available for execution on the device";
        case CUDA_ERROR_ECC_UNCORRECTABLE: return "uncorrectable ECC error encountered";
        case CUDA_ERROR_INVALID_PTX: return "a PTX JIT compilation failed";
        case CUDA_ERROR_INVALID_HANDLE: return "invalid resource handle";
        case CUDA_ERROR_NOT_FOUND: return "named symbol not found";
        case CUDA_ERROR_NOT_READY: return "device not ready";
        case CUDA_ERROR_ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
        case CUDA_ERROR_CONTEXT_IS_DESTROYED: return "context is destroyed";
        case CUDA_ERROR_LAUNCH_TIMEOUT: return "the launch timed out and was terminated";
        case CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: return "peer access is already enabled";
        case CUDA_ERROR_PEER_ACCESS_NOT_ENABLED: return "peer access has not been enabled";
        case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
            return "peer access is not supported between these two devices";
        case CUDA_ERROR_MISALIGNED_ADDRESS: return "misaligned address";
        case CUDA_ERROR_LAUNCH_FAILED: return "unspecified launch failure";
        case CUDA_ERROR_NOT_SUPPORTED: return "operation not supported";
        case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: return "operation not permitted when stream is capturing";
        default: return "an error";
    }
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuGetErrorString(CUresult error, const char** words) {
    static thread_local std::string text;
    std::lock_guard<std::recursive_mutex> lock(emulator().lock);
    text = plain_words(error);
    auto detail = emulator().last_words.find(error);
    if (detail != emulator().last_words.end()) text += " (emulated: " + detail->second + ")";
    *words = text.c_str();
    return CUDA_SUCCESS;
}

DRIVER_API cuGetErrorName(CUresult error, const char** name) {
    *name = plain_words(error);
    return CUDA_SUCCESS;
}
