"""Work captured from a stream runs when its graph is launched, as often as that is. Through ctypes, as
pycuda has no graphs."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.emulator.bench import context, kernel, pycuda_driver
from tests.emulator.emulated_driver import LAUNCH

LAUNCH_FAILED = 719  # CUDA_ERROR_LAUNCH_FAILED
ADD = 'extern "C" __global__ void add(float *x) { x[threadIdx.x] += 1; }'


@pytest.mark.parametrize("lazy", [False, True])
def test_a_graph_replays_what_was_captured(emulated, lazy: bool) -> None:
    emulated.reset(num_dies=1, lazy=lazy)
    library = ctypes.CDLL("libcuda.so.1")
    graph, runnable = ctypes.c_void_p(), ctypes.c_void_p()
    with context():
        cuda = pycuda_driver()
        stream = cuda.Stream()
        handle = ctypes.c_void_p(stream.handle)
        x = cuda.to_device(np.zeros(32, np.float32))
        add = kernel(ADD, "add")
        add.prepare("P")
        assert library.cuStreamBeginCapture_v2(handle, 0) == 0
        add.prepared_async_call((1, 1), (32, 1, 1), stream, x)
        add.prepared_async_call((1, 1), (32, 1, 1), stream, x)
        assert library.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0
        assert not cuda.from_device(x, 32, np.float32).any()
        assert library.cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, 0) == 0
        assert library.cuGraphDestroy(graph) == 0
        for _ in range(3):
            assert library.cuGraphLaunch(runnable, handle) == 0
        stream.synchronize()
        assert (cuda.from_device(x, 32, np.float32) == 6).all()
        assert emulated.count(LAUNCH) == 6
        emulated.fail(LAUNCH, 2)  # in the middle of the next replay
        launched = library.cuGraphLaunch(runnable, handle)
        assert launched == (0 if lazy else LAUNCH_FAILED)
        with pytest.raises(cuda.Error, match="add was made to fail"):
            stream.synchronize()
        assert library.cuGraphExecDestroy(runnable) == 0
