"""The machine: one nogil function that every compute thread runs, op record by op record.

Owns the walk over a table of op records and the threads' meetings; knows no op. Each record starts
with the address of a compiled kernel, which does its own thread's share of the op. A model adds
records, not machine code.

A waiter spins briefly, then sleeps on a futex: on a busy machine a sleeping waiter frees its core for
the thread it waits for (sched_yield does not: the scheduler moves threads only to idle cores).
"""

from numba import njit

from kernels.cpu.layout import (
    KERNEL,
    MEET,
    NARROW_ROWS,
    OP_COLUMNS,
    ROWS,
    S_BARRIER,
    S_LOGITS,
    S_LONGEST_WAIT,
    S_PROFILE,
    S_ROWS,
    S_SPINS,
    S_STEP_SPINS,
    S_STOP,
    S_THREADS,
    S_WAITED,
)
from kernels.cpu.simd import (
    OPTIONS,
    atomic_add,
    atomic_load,
    call_kernel,
    cycles,
    futex_wait,
    futex_wake_all,
    i32,
    i64,
    inline_part,
    pause,
    profile_add,
)

# ---- meeting points: words on cache lines of their own -------------------------------------------

BARRIER_BYTES = 64 * 5
_ARRIVED, _GENERATION, _STEP = 0, 64, 192  # the line after a word counts those who sleep on it
MAX_THREADS = 255  # the step word counts them in a byte


@inline_part
def _wait_while(word, value, spins):
    n = 0
    while atomic_load(word) == value:
        if n < spins:
            n += 1
            pause()
        else:
            atomic_add(word + 64, i32(1))
            futex_wait(word, value)  # returns at once if the word has changed
            atomic_add(word + 64, i32(-1))


@inline_part
def _advance(word, by):
    atomic_add(word, by)
    if atomic_load(word + 64) > 0:
        futex_wake_all(word)


@inline_part
def _barrier(base, threads, spins):
    generation = atomic_load(base + _GENERATION)
    if atomic_add(base + _ARRIVED, i32(1)) == threads - 1:
        atomic_add(base + _ARRIVED, i32(-threads))
        _advance(base + _GENERATION, i32(1))
    else:
        _wait_while(base + _GENERATION, generation, spins)


@inline_part
def _mode(step):
    """What a step is like, as far as meetings care: which bit of MEET counts."""
    logits = step[S_LOGITS]
    few_or_many = 0 if logits == 0 else (1 if logits <= NARROW_ROWS else 2)
    return (3 if step[S_ROWS] > NARROW_ROWS else 0) + few_or_many


@inline_part
def _walk(table, step, tid):
    """One step of the program, as seen by one thread."""
    threads, spins, base, mode = step[S_THREADS], step[S_SPINS], step[S_BARRIER], _mode(step)
    for i in range(table.shape[0]):
        if step[table[i, ROWS]] == 0:
            continue  # no row of this step wants logits
        started = cycles()
        record = table.ctypes.data + 8 * OP_COLUMNS * i
        call_kernel(table[i, KERNEL], record, step.ctypes.data, tid)
        done = cycles()
        if (table[i, MEET] >> mode) & 1:
            _barrier(base, threads, spins)
        if tid == 0:
            waited = cycles() - done
            step[S_WAITED] += waited
            beyond_own_work = waited - (done - started)
            step[S_LONGEST_WAIT] = max(step[S_LONGEST_WAIT], beyond_own_work)
            if step[S_PROFILE]:
                profile_add(step[S_PROFILE] + 16 * i, done - started, waited)


@njit("int64()", **OPTIONS, cache=True)
def read_counter():
    """The counter that profiles and waits are measured with."""
    return cycles()


RUN_SIGNATURE = "int64(int64[:,::1], int64[::1], int64)"


@njit(**OPTIONS, cache=True)
def run(table, step, tid):
    """Thread 0: run one step and return. The others: run every step they are asked into, until stopped.

    The step word holds a step number and, in its low byte, how many threads take part, so that one
    atomic read tells a helper both. A helper left out of a step may be late for it, or miss it; it sleeps
    at once, since somebody else wants its core.
    With S_STOP set, thread 0 only wakes the others.
    """
    base, spins, step_spins = step[S_BARRIER], step[S_SPINS], i64(0)
    if tid == 0:
        word = atomic_load(base + _STEP)
        _advance(base + _STEP, i32(256 + step[S_THREADS] - (word & 255)))
        if step[S_STOP] == 0:
            _walk(table, step, tid)
            _barrier(base, step[S_THREADS], spins)
        return 0
    seen = i32(0)
    while True:
        _wait_while(base + _STEP, seen, step_spins)
        seen = atomic_load(base + _STEP)
        if step[S_STOP]:
            return 0
        step_spins = i64(0)
        if tid < (seen & 255):
            step_spins = step[S_STEP_SPINS]
            _walk(table, step, tid)
            _barrier(base, step[S_THREADS], spins)
