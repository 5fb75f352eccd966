// What g++'s -fsanitize=alignment,bounds calls: our own handlers, which end the launch with the line.
#pragma once
#include "thread_block.h"

namespace emulated {
struct SourceLocation {  // as the compiler lays it out
    const char* file;
    unsigned line, column;
};
static __attribute__((noreturn)) void end_for(int kind, const char* what, const SourceLocation& where) {
    const char* name = strrchr(where.file, '/');
    fault(kind, "%s:%u: %s", name ? name + 1 : where.file, where.line, what);
    end_thread();
}
}  // namespace emulated

extern "C" {
__attribute__((visibility("hidden"), noreturn, used)) inline void __ubsan_handle_type_mismatch_v1_abort(
    emulated::SourceLocation* where, void*) {
    emulated::end_for(emulated::LAUNCH_MISALIGNED, "a misaligned address is read or written", *where);
}
__attribute__((visibility("hidden"), noreturn, used)) inline void __ubsan_handle_out_of_bounds_abort(
    emulated::SourceLocation* where, void*) {
    emulated::end_for(emulated::LAUNCH_FAULT, "an index lies outside its array", *where);
}
}
