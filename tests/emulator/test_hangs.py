"""A die hangs when a test says so: it can be asked, and what would never return fails and is counted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.bench import context, kernel, pycuda_driver

NOTHING = 'extern "C" __global__ void nothing() {}'
MARK = 'extern "C" __global__ void mark(int *y) { *y = 7; }'


@pytest.fixture
def machine(_emulated_driver):
    """The emulated driver, of which calls that never return are expected."""
    _emulated_driver.reset(num_dies=2)
    yield _emulated_driver
    _emulated_driver.reset(num_dies=0)


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
def test_the_nth_launch_and_what_follows_it_never_end(machine, lazy) -> None:
    machine.reset(num_dies=1, lazy=lazy)
    cuda = pycuda_driver()
    with context():
        y, run = cuda.pagelocked_zeros(1, np.int32), kernel(MARK, "mark")
        at = np.intp(y.base.get_device_pointer())
        before, after = cuda.Event(), cuda.Event()
        machine.hang_at_launch(2)
        run(at, block=(1, 1, 1))
        before.record()
        run(at, block=(1, 1, 1))
        after.record()
        for _ in range(10):
            assert not after.query()
        assert before.query()
        assert y[0] == 7
        assert machine.is_hung(0)
        assert not machine.num_stuck_calls(), "nobody has waited"


def test_the_other_die_waits_where_it_is_told_to_and_runs_on_elsewhere(machine) -> None:
    cuda = pycuda_driver()
    with context(1):
        waits, free, passed = cuda.Stream(), cuda.Stream(), cuda.Event()
        with context(0):
            never = cuda.Event()
            machine.hang_die(0)
            never.record()
        waits.wait_for_event(never)
        assert not waits.is_done()
        passed.record(free)
        assert passed.query()


@pytest.mark.parametrize(
    "call",
    [
        lambda cuda: cuda.Context.synchronize(),
        lambda cuda: [cuda.Event().record(stream := cuda.Stream()), stream.synchronize()],
        lambda cuda: cuda.mem_alloc(16),
        lambda cuda: cuda.pagelocked_empty(4, np.float32),
        lambda cuda: cuda.Device(0).make_context(),
        lambda cuda: kernel(NOTHING, "nothing"),
    ],
    ids=["context", "stream", "memory", "page-locked memory", "another context", "a module"],
)
def test_what_would_never_return_fails(machine, call) -> None:
    cuda = pycuda_driver()
    with context():
        machine.hang_die(0)
        cuda.Event().record()
        before = machine.num_stuck_calls()
        with pytest.raises(cuda.Error, match="would never return, as a die hangs"):
            call(cuda)
        assert machine.num_stuck_calls() > before


def test_memory_is_not_freed(machine) -> None:
    cuda = pycuda_driver()
    with context():
        memory = cuda.mem_alloc(1 << 20)
        machine.hang_die(0)
        memory.free()  # pycuda does not raise, it warns
        assert machine.num_stuck_calls() == 1
        assert machine.used_bytes(0) == 1 << 20


def test_memory_that_is_not_page_locked_is_waited_for(machine) -> None:
    """Also by a copy in stream order."""
    cuda = pycuda_driver()
    with context():
        x = cuda.mem_alloc(16)
        machine.hang_die(0)
        with pytest.raises(cuda.Error, match="not page-locked would never return"):
            cuda.memcpy_dtoh_async(np.zeros(4, np.float32), x, cuda.Stream())
