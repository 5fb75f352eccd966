// A CUDA thread is a fiber: a stack of its own, left and entered by exchanging stack pointers.
// Threads that never wait run one after another on the same stack, which stays warm in the cache.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <vector>

#if !defined(__x86_64__)
#error "The emulator exchanges stacks in x86-64 assembly."
#endif

namespace emulated {

constexpr size_t STACK_BYTES = 64 << 10;
constexpr size_t GUARD_BYTES = 4096;

// Save what the calling convention preserves, exchange stacks, restore. Vector registers are not preserved.
extern "C" void emulated_exchange(void** saved, void* next);
__asm__(R"(
.pushsection .text
.local emulated_exchange
emulated_exchange:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.popsection
)");

class StackPool {
    std::vector<char*> free_;

public:
    char* take() {
        if (free_.empty()) {
            // A guard page below: a thread that needs more stack faults instead of writing elsewhere.
            auto base = static_cast<char*>(mmap(nullptr, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
            mprotect(base, GUARD_BYTES, PROT_NONE);
            return base + GUARD_BYTES;
        }
        char* stack = free_.back();
        free_.pop_back();
        return stack;
    }
    void give(char* stack) { free_.push_back(stack); }
    ~StackPool() {
        for (char* stack : free_) munmap(stack - GUARD_BYTES, STACK_BYTES + GUARD_BYTES);
    }
};

// The stack pointer of a fiber that will begin in `entry`. Neighbours' frames start at different cache sets.
inline void* fresh_stack(char* stack, unsigned colour, void (*entry)()) {
    auto top = reinterpret_cast<void**>(stack + STACK_BYTES - colour % 61 * 192);
    *--top = nullptr;  // the return address `entry` must never use; also keeps the stack aligned
    *--top = reinterpret_cast<void*>(entry);
    for (int preserved = 0; preserved < 6; preserved++) *--top = nullptr;
    return top;
}

}  // namespace emulated
